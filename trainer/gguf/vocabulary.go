package gguf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// The kinds of tokens.
const (
	tokenNormal  = 1
	tokenUnknown = 2
	tokenControl = 3
	tokenUser    = 4
	tokenUnused  = 5
	tokenByte    = 6
)

// The expressions that byte-level tokenizers of these families cut words by, and what llama.cpp calls the rule.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	ending       = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt2Rule     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	digitRule    = contractions + `\p{N}` + ending
	tripleRule   = contractions + `\p{N}{1,3}` + ending
	eachDigit    = `\p{N}` + "\n" + gpt2Rule // one expression after the other
	deepseekRule = `\p{N}{1,3}` + "\n[一-龥\u3040-ゟ゠-ヿ]+\n" + "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// rule returns the name of the way in which a byte-level tokenizer cuts words.
func rule(s *tokenizer.Spec) (string, error) {
	words := strings.Join(s.Words, "\n")
	switch {
	case words == gpt2Rule && !s.IgnoreMerges:
		return "gpt-2", nil
	case words == digitRule && !s.IgnoreMerges:
		return "qwen2", nil
	case words == tripleRule && s.IgnoreMerges:
		return "llama-bpe", nil
	case words == tripleRule:
		return "glm4", nil
	case words == eachDigit && !s.IgnoreMerges:
		return "smollm", nil
	case words == deepseekRule && !s.IgnoreMerges:
		return "deepseek-v3", nil
	}
	return "", fmt.Errorf("tokenizer.json: pre_tokenizer cuts words by %q (ignore_merges %v), for which llama.cpp "+
		"has no rule that is known here; known are those of GPT-2, Llama 3, Qwen2, GLM-4, SmolLM2 and DeepSeek-V3", words,
		s.IgnoreMerges)
}

// vocabulary sets the keys of the tokenizer of a model of so many tokens, and returns notes about what
// the format cannot say.
func vocabulary(out *file, dir, adapter string, size int) (notes []string, err error) {
	spec, err := tokenizer.LoadSpec(dir)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	set := func(key string, value any) { out.set("tokenizer.ggml."+key, value) }
	if spec.ByteLevel {
		name, err := rule(spec)
		if err != nil {
			return nil, err
		}
		merges := make([]string, len(spec.Merges))
		for i, m := range spec.Merges {
			merges[i] = m[0] + " " + m[1]
		}
		set("model", "gpt2")
		set("pre", name)
		set("merges", merges)
	} else {
		set("model", "llama")
		set("pre", "default")
	}
	var ranks map[string]int // of what merges make, where scores stand for them
	if !spec.ByteLevel {
		ranks = spec.Ranks()
	}
	tokens, kinds, err := list(spec, tok, ranks, size)
	if err != nil {
		return nil, err
	}
	set("tokens", tokens)
	set("token_type", kinds)
	if !spec.ByteLevel {
		scores, err := scores(spec, tok, ranks, tokens)
		if err != nil {
			return nil, err
		}
		set("scores", scores)
	}
	set("add_space_prefix", spec.PrefixSpace != "never")
	switch {
	case spec.PrefixSpace == "first":
		notes = append(notes, "after a special token llama.cpp puts a space before the text, which this tokenizer does "+
			"before the first text only")
	case spec.ByteLevel && spec.PrefixSpace == "always":
		notes = append(notes, "llama.cpp puts no space before a text, as this tokenizer does (add_prefix_space): write it")
	}
	for _, a := range spec.Added {
		if a.Strips {
			notes = append(notes, fmt.Sprintf("%s takes white space beside it along, which llama.cpp may not do", a.Text))
			break
		}
	}
	around, err := special(set, dir, spec, tok)
	if err != nil {
		return nil, err
	}
	text, tools, err := chat.Text(dir, adapter)
	if err == nil {
		out.set("tokenizer.chat_template", text)
		if tools != "" {
			out.set("tokenizer.chat_template.tool_use", tools)
		}
	} else if !errors.Is(err, chat.ErrNoTemplate) {
		return nil, err
	}
	return append(notes, around...), nil
}

// list returns the tokens by id, up to the number that the model has, and their kinds.
func list(spec *tokenizer.Spec, tok *tokenizer.Tokenizer, ranks map[string]int, size int) ([]string, []int32, error) {
	if n := tok.VocabSize(); n > size {
		return nil, nil, fmt.Errorf("tokenizer.json has tokens up to %d, but vocab_size of config.json is %d", n-1, size)
	}
	added := map[int32]tokenizer.AddedToken{}
	for _, a := range spec.Added {
		added[a.ID] = a
	}
	tokens, kinds, ids := make([]string, size), make([]int32, size), make(map[string]int, size)
	for i := range tokens {
		token, ok := tok.Token(int32(i))
		a, isAdded := added[int32(i)]
		_, merged := ranks[token]
		switch {
		case !ok:
			token, kinds[i] = fmt.Sprintf("[PAD%d]", i), tokenUnused
		case token == spec.Unknown:
			kinds[i] = tokenUnknown
		case isAdded && (a.Special || between(token, "<|", "|>") || between(token, "<｜", "｜>")):
			kinds[i] = tokenControl
		case isAdded && !(strings.Contains(token, "▁") && merged): // which llama.cpp would not write as a space
			kinds[i] = tokenUser
		case !spec.ByteLevel && isByte(token):
			kinds[i] = tokenByte
		default:
			kinds[i] = tokenNormal
		}
		if other, twice := ids[token]; twice {
			return nil, nil, fmt.Errorf("tokenizer.json: the tokens %d and %d are both %q, which GGUF does not allow", other,
				i, token)
		}
		tokens[i], ids[token] = token, i
	}
	return tokens, kinds, nil
}

func isByte(token string) bool { return len(token) == len("<0x00>") && between(token, "<0x", ">") }

func between(token, begin, end string) bool {
	return strings.HasPrefix(token, begin) && strings.HasSuffix(token, end)
}

// scores are what llama.cpp merges by, the highest first. They are the ranks of the merges, which must
// say no more than scores do.
func scores(spec *tokenizer.Spec, tok *tokenizer.Tokenizer, ranks map[string]int,
	tokens []string) ([]float32, error) {
	for b := range 256 {
		if _, ok := tok.TokenID(fmt.Sprintf("<0x%02X>", b)); !ok {
			return nil, fmt.Errorf("tokenizer.json has no token <0x%02X>, and llama.cpp needs one for each byte", b)
		}
	}
	has := func(token string) bool { _, ok := tok.TokenID(token); return ok }
	if ok, why := spec.EveryMerge(has); !ok {
		return nil, fmt.Errorf("tokenizer.json: the merges are not those of a SentencePiece model, by whose scores "+
			"llama.cpp merges: %s", why)
	}
	const none = -1e6
	out := make([]float32, len(tokens))
	for i, token := range tokens {
		rank, ok := ranks[token]
		if out[i] = none; ok {
			out[i] = -float32(rank)
		}
	}
	return out, nil
}

// The ends of turns and of calls of tools, which llama.cpp has keys for.
var (
	turnEnds = []string{"<|im_end|>", "<|eot_id|>", "<|end|>", "<|user|>", "<end_of_turn>"}
	toolEnds = []string{"<|eom_id|>", "<|observation|>"}
	knownEnd = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<EOT>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
		"<|end|>", "<end_of_turn>"}
)

// special sets the ids of the tokens that mean something, and what is put around a text.
func special(set func(key string, value any), dir string, spec *tokenizer.Spec,
	tok *tokenizer.Tokenizer) (notes []string, err error) {
	before, after := surrounding(tok)
	bos, hasBOS := tok.BOS()
	eos, hasEOS := tok.EOS()
	switch {
	case len(before) > 1:
		notes = append(notes, fmt.Sprintf("llama.cpp puts nothing before a text, where the tokenizer has %s: write it, "+
			"or use the chat template", names(tok, before)))
	case len(before) == 1:
		bos, hasBOS = before[0], true
	}
	if len(before) > 1 && !hasBOS {
		bos, hasBOS = before[0], true
	}
	d, err := generate.LoadDefaults(dir)
	if err != nil {
		return nil, err
	}
	ends := d.EOS
	if !hasEOS && len(ends) > 0 {
		eos, hasEOS = ends[0], true
	}
	if hasEOS && len(ends) > 0 && !slices.Contains(ends, eos) {
		eos = ends[0]
	}
	if !hasEOS {
		return nil, errors.New("tokenizer_config.json has no eos_token, and generation_config.json no eos_token_id: " +
			"llama.cpp needs the token that ends a text")
	}
	if !hasBOS {
		bos = eos // llama.cpp has an id of its own otherwise; it is not put before a text
	}
	set("bos_token_id", uint32(bos))
	set("eos_token_id", uint32(eos))
	set("add_bos_token", len(before) == 1)
	if len(after) > 1 || len(after) == 1 && after[0] != eos {
		return nil, fmt.Errorf("tokenizer.json: post_processor puts %s after a text, which GGUF cannot say", names(tok,
			after))
	}
	set("add_eos_token", len(after) == 1)
	if id, ok := tok.Pad(); ok {
		set("padding_token_id", uint32(id))
	}
	if id, ok := tok.TokenID(spec.Unknown); ok && spec.Unknown != "" {
		set("unknown_token_id", uint32(id))
	}
	found := map[string]uint32{} // a file has a key once
	for _, end := range ends {
		text, _ := tok.Token(end)
		key, known := "", slices.Contains(knownEnd, text)
		switch {
		case slices.Contains(turnEnds, text):
			key = "eot_token_id"
		case slices.Contains(toolEnds, text):
			key = "eom_token_id"
		case end != eos && !known:
			notes = append(notes, fmt.Sprintf("llama.cpp does not end a text at %s, which generation_config.json names", text))
		}
		if _, taken := found[key]; key != "" && (!taken || !known) { // of several, the one that needs it
			found[key] = uint32(end)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		set(key, found[key])
	}
	return notes, nil
}

// surrounding returns what the tokenizer puts before and after a text.
func surrounding(tok *tokenizer.Tokenizer) (before, after []int32) {
	const text = "a"
	plain, whole := tok.Encode(text, false), tok.Encode(text, true)
	for i := range len(whole) - len(plain) + 1 {
		if slices.Equal(whole[i:i+len(plain)], plain) {
			return whole[:i], whole[i+len(plain):]
		}
	}
	return nil, nil
}

func names(tok *tokenizer.Tokenizer, ids []int32) string {
	var texts []string
	for _, id := range ids {
		text, _ := tok.Token(id)
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}
