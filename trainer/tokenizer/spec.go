package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed98097648/tune/internal/plainjson"
)

// Spec is what a tokenizer.json says, for who writes the tokenizer in another format. It is
// one of two kinds: byte-level, or made of characters with tokens for the bytes of all others, as
// SentencePiece does it.
type Spec struct {
	ByteLevel    bool
	Words        []string // expressions that cut a text into words, one after the other; the matches are words, too
	PrefixSpace  string   // where a space is put before a text: "always", "first" (not after an added token), "never"
	IgnoreMerges bool     // a word that is a token needs no merges
	Merges       [][2]string
	Unknown      string // the token for what no token has, or empty
	Added        []AddedToken
}

// AddedToken is a text that is always one token.
type AddedToken struct {
	ID      int32
	Text    string
	Special bool // carries no text
	Strips  bool // takes white space beside it along
}

// LoadSpec reads tokenizer.json of the model's folder dir. One that is of neither kind, or asks
// for something that no field of Spec says, is an error that names the field.
func LoadSpec(dir string) (*Spec, error) {
	path := filepath.Join(dir, tokenizerFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	beside, err := readBeside(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	var f file
	err = plainjson.Unmarshal(data, &f)
	if err == nil {
		err = f.Model.check()
	}
	if err == nil {
		err = f.override(beside, f.Model.Vocab)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	s := &Spec{IgnoreMerges: f.Model.IgnoreMerges, Merges: f.Model.Merges}
	if f.Model.UnkToken != nil {
		s.Unknown = *f.Model.UnkToken
	}
	for _, a := range f.AddedTokens {
		s.Added = append(s.Added, AddedToken{a.ID, a.Content, a.Special, a.LStrip || a.RStrip})
	}
	if f.Model.ByteFallback {
		err = s.pieces(&f)
	} else {
		err = s.bytes(&f)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return s, nil
}

// bytes describes a byte-level tokenizer.
func (s *Spec) bytes(f *file) error {
	s.ByteLevel, s.PrefixSpace = true, prependNever
	if n := f.Normalizer; n != nil && n.Type != "NFC" {
		return unsupported("normalizer.type", n.Type, "null, NFC")
	}
	var steps []preTokenizerSpec
	if p := f.PreTokenizer; p != nil && p.Type == "Sequence" {
		steps = p.PreTokenizers
	} else if p != nil {
		steps = append(steps, *p)
	}
	for i, p := range steps {
		last := i == len(steps)-1
		switch {
		case p.Type == "ByteLevel" && last:
			if orTrue(p.AddPrefixSpace) {
				s.PrefixSpace = prependAlways
			}
			if orTrue(p.UseRegex) {
				s.Words = append(s.Words, gpt2Words)
			}
			return nil
		case p.Type == "Split" && p.Pattern != nil && p.Pattern.Regex != nil &&
			(p.Behavior == "Isolated" && !p.Invert || p.Behavior == "Removed" && p.Invert):
			s.Words = append(s.Words, *p.Pattern.Regex)
		case p.Type == "Digits" && p.IndividualDigits:
			s.Words = append(s.Words, `\p{N}`)
		default:
			return unsupported(fmt.Sprintf("pre_tokenizer[%d].type", i), p.Type,
				"Split by an expression, Digits, and ByteLevel at the end")
		}
	}
	return errors.New("pre_tokenizer has no ByteLevel, and model.byte_fallback is off: the tokens are neither bytes " +
		"nor pieces")
}

// pieces describes a tokenizer of SentencePiece's kind.
func (s *Spec) pieces(f *file) error {
	const space = "▁"
	s.PrefixSpace = prependNever
	var steps []normalizerSpec
	if n := f.Normalizer; n != nil && n.Type == "Sequence" {
		steps = n.Normalizers
	} else if n != nil {
		steps = append(steps, *n)
	}
	replaced := false
	for i, n := range steps {
		switch {
		case n.Type == "Prepend" && n.Prepend != nil && *n.Prepend == space:
			s.PrefixSpace = prependAlways
		case n.Type == "Replace" && n.Pattern != nil && n.Pattern.String != nil && *n.Pattern.String == " " &&
			n.Content != nil && *n.Content == space:
			replaced = true
		default:
			return unsupported(fmt.Sprintf("normalizer[%d].type", i), n.Type, "Prepend "+space, `Replace " " by `+space)
		}
	}
	if p := f.PreTokenizer; p != nil && !(replaced && p.splitsAtSpaces()) { // of which none is left then: Gemma's
		if p.Type != "Metaspace" || replaced {
			return unsupported("pre_tokenizer.type", p.Type, "null, Metaspace without a normalizer")
		}
		if orTrue(p.Split) {
			return unsupported("pre_tokenizer.split", "true", "false")
		}
		with, scheme, err := p.metaspaceSpec.read(p.AddPrefixSpace, "pre_tokenizer")
		if err == nil && with != space {
			err = unsupported("pre_tokenizer.replacement", with, space)
		}
		if err != nil {
			return err
		}
		s.PrefixSpace, replaced = scheme, true
	}
	if !replaced {
		return errors.New(`normalizer: nothing writes " " as ` + space)
	}
	return nil
}

// splitsAtSpaces reports whether it does nothing to a text without spaces.
func (p *preTokenizerSpec) splitsAtSpaces() bool {
	return p.Type == "Split" && !p.Invert && p.Pattern != nil && p.Pattern.String != nil && *p.Pattern.String == " "
}

// EveryMerge reports whether wherever two tokens make up a third, they merge, and all merges into the same token
// come one after the other: then the rank of a token alone says what merges first, as in SentencePiece, which
// knows tokens and their scores and no merges. The text names a pair for which that is not so. Merges of which growing
// tells may come in any order.
func (s *Spec) EveryMerge(has func(token string) bool) (bool, string) {
	made, pairs := map[string]bool{}, make(map[[2]string]bool, len(s.Merges))
	last, grown := "", s.growing()
	for i, m := range s.Merges {
		whole := m[0] + m[1]
		if made[whole] && last != whole && i >= grown {
			return false, fmt.Sprintf("%q has merges far apart", whole)
		}
		last, made[whole], pairs[m] = whole, true, true
	}
	for _, m := range s.Merges {
		whole := m[0] + m[1]
		for i := range whole {
			if pair := [2]string{whole[:i], whole[i:]}; i > 0 && has(pair[0]) && has(pair[1]) && !pairs[pair] {
				return false, fmt.Sprintf("%q and %q do not merge", pair[0], pair[1])
			}
		}
	}
	return true, ""
}

// growing returns how many merges at the beginning make runs of one character alone, as Gemma's do of white space: of
// all lengths up to the longest, and of each character the merge of two after all others. Whichever of those comes
// first, a run then grows by one character after the other from its left end, before anything else merges.
func (s *Spec) growing() int {
	n, longest := 0, map[rune]int{}
	lengths := map[string]bool{}
	for _, m := range s.Merges {
		whole := m[0] + m[1]
		of, _ := utf8.DecodeRuneInString(whole)
		if strings.Trim(whole, string(of)) != "" {
			break
		}
		if pair := string(of) + string(of); lengths[pair] { // not the last
			return 0
		}
		n, lengths[whole] = n+1, true
		longest[of] = max(longest[of], utf8.RuneCountInString(whole))
	}
	for of, most := range longest {
		for length := 3; length <= most; length++ { // two may merge later
			if !lengths[strings.Repeat(string(of), length)] {
				return 0
			}
		}
	}
	return n
}

// Ranks returns for each token that merges make the rank of the first of them.
func (s *Spec) Ranks() map[string]int {
	ranks := make(map[string]int, len(s.Merges))
	for rank, m := range slices.Backward(s.Merges) {
		ranks[m[0]+m[1]] = rank
	}
	return ranks
}
