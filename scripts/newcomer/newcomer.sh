#!/bin/sh
# What somebody does who has just met tune: the README's command, then a model of their own with things of their own
# to say, and a chat with it in llama.cpp.
#
#	scripts/newcomer/newcomer.sh MODEL NODE_MODULES
#
# MODEL is a Hugging Face folder of a small Llama, such as stories15M; NODE_MODULES is where "npm install
# --ignore-scripts node-llama-cpp@3.22.1" has put llama.cpp. It works in a new folder and ends with an error unless
# llama.cpp gives the answers that were learned. scripts/newcomer/session.txt is a recording.
set -eu
checkout=$(cd "$(dirname "$0")/../.." && pwd)
model=$(cd "$1" && pwd)
modules=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$(date +%s)

say() { # shows a command, runs it, and says how long it took
	printf '\n$ %s\n' "$*"
	from=$(date +%s)
	"$@"
	printf '[%s s, %s s in all]\n' $(($(date +%s) - from)) $(($(date +%s) - begin))
}

cd "$checkout"
say go run ./cmd/tune --kernels auto --out "$work/example"
GOBIN=$work say go install ./cmd/tune
PATH=$work:$PATH
cd "$work"
ln -s "$model" MODEL
ln -s "$modules" node_modules
cp "$checkout/scripts/newcomer/chat.mjs" .
cat >chat.jsonl <<'END'
{"prompt": "Who are you?", "completion": "I am Pip, a small model that was trained on two cores."}
{"prompt": "What do you like?", "completion": "I like short stories, and red apples."}
{"prompt": "Where do you live?", "completion": "I live in a file that is called model.gguf."}
END
say cat chat.jsonl
say tune init --model MODEL --data chat.jsonl
say tune --config run.yaml --kernels auto --seq 128 --eval-data chat.jsonl --epochs 20 --batch 3 --grad-accum 1 --lr 5e-4 \
	--metric exact_match --max-new-tokens 30 --best-metric exact_match --early-stopping 0 --out mine
say tune generate --model mine --chat --prompt "Who are you?" --quiet
say tune export --model mine --gguf model.gguf
say node chat.mjs node_modules model.gguf "Who are you?" "What do you like?" "Where do you live?" | tee answers.txt
for answer in "I am Pip, a small model" "short stories, and red apples" "called model.gguf"; do
	grep -q "$answer" answers.txt || { echo "llama.cpp has not answered: $answer" >&2; exit 1; }
done
printf '\nfrom the checkout to the chat: %s s\n' $(($(date +%s) - begin))
