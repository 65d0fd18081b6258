"""What a page may load and run: its site's files and its template's scripts, and no text."""

import base64
import hashlib
import re

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def policy(frame: str) -> str:
    """The Content-Security-Policy of a page."""
    digests = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(frame))
    texts = (base64.b64encode(digest).decode() for digest in dict.fromkeys(digests))
    hashes = "".join(f" 'sha256-{text}'" for text in texts)
    return "; ".join(
        [
            # Pages open from a folder too: not every browser takes that for 'self', and none reads
            # file: from a page of the web.
            "default-src 'self' file:",
            f"script-src 'self' file:{hashes}",
            "worker-src blob:",  # reads traces
            "style-src 'self' file: 'unsafe-inline'",  # figures carry style attributes
            "font-src 'self' file: data:",  # style sheets hold their fonts
            "img-src 'self' file: data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
