#!/bin/sh
# Find a Chromium-family browser for the tests, or install Debian's when root.
set -eu
for name in chromium chromium-browser google-chrome google-chrome-stable microsoft-edge; do
  if command -v "$name" >/dev/null 2>&1; then echo "browser: $(command -v "$name")"; exit 0; fi
done
for path in "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium" "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge"; do
  if [ -x "$path" ]; then echo "browser: $path"; exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
  command -v chromium && exit 0
fi
echo "The browser tests need Chromium, Chrome or Edge: install one (Debian: apt-get install chromium) and run again." >&2
exit 1
