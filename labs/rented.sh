# Sets up a machine that was rented: sh labs/rented.sh EXTRAS, in the book's folder. Its own Python serves where it is new
# enough and has a torch that sees the GPU: no minute is paid to download one. Else uv brings a Python, and a torch for
# the driver that is there; packages come as pinned.
set -eu
PATH="$HOME/.local/bin:$PATH" # where SkyPilot puts uv
own='import sys, torch
release = tuple(map(int, torch.__version__.split(".")[:2]))
sys.exit(not (sys.version_info >= (3, 11) and (2, 4) <= release < (2, 14) and torch.cuda.is_available()))'
command -v uv > /dev/null || PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install -q "$(grep '^uv==' constraints.txt)"
if python3 -c "$own" 2> /dev/null; then
  extras="${1%%,torch*}${1#*,torch}"
  extras="${extras%,kernels}" # its torch has brought a Triton
  uv venv -q --allow-existing --system-site-packages --python python3 .venv
else
  extras="$1"
  uv venv -q --allow-existing --python 3.12 .venv
fi
UV_TORCH_BACKEND=auto uv pip install -q --python .venv/bin/python -c hashes.txt -e ".[$extras]"
