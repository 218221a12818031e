#!/usr/bin/env bash
# Lets OpenAI's own package for Node, as published, ask a server 25 times: see calls.mjs. The model is a small one,
# which is trained here for some seconds to answer three conversations, one with a call of a tool.
#
#	internal/openai/run.sh ../shared/data/models/stories260K
#
# It needs Node 20 and npm.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
base=$(realpath "$1")
temp=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$temp"' EXIT
go build -C "$here" -o "$temp/tune" ../../cmd/tune
cp "$here"/{package.json,package-lock.json,calls.mjs} "$temp"
(cd "$temp" && npm ci --ignore-scripts --no-audit --no-fund)
cp -rL "$base" "$temp/base"
chmod -R u+w "$temp/base"
cp "$here/chat_template.jinja" "$temp/base"
"$temp/tune" --model "$temp/base" --data "$here/talk.jsonl" --steps 150 --batch 3 --seq 320 --lr 3e-3 \
	--out "$temp/talk"
TUNE_API_KEY=secret "$temp/tune" serve --model "$temp/talk" --port 0 --max-body 64KiB 2>"$temp/log" &
server=$!
until grep -q 'tune: ready' "$temp/log"; do
	kill -0 "$server" || { cat "$temp/log"; exit 1; }
	sleep 0.1
done
url=$(sed -n 's/^tune: listening at //p' "$temp/log")
(cd "$temp" && node calls.mjs "$url/v1" secret)
kill -TERM "$server"
wait "$server"
server=
