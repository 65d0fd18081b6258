# Sets up a machine that was rented: sh labs/rented.sh EXTRAS, in the book's folder. Its own Python may be 3.10, so
# uv brings one, and packages as pinned; torch comes for the driver that is there.
set -eu
PATH="$HOME/.local/bin:$PATH" # where SkyPilot puts uv
command -v uv > /dev/null || PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install -q "$(grep '^uv==' constraints.txt)"
uv venv -q --allow-existing --python 3.12 .venv
UV_TORCH_BACKEND=auto uv pip install -q --python .venv/bin/python -c hashes.txt -e ".[$1]"
