package tokenizer

import (
	"errors"
	"fmt"
)

// postProcessor adds the tokens around the ids of a text.
type postProcessor func(ids []int32) []int32

// postProcessorSpec is the field "post_processor": the fields of all kinds in one.
// The fields for pairs of texts are not read: the trainer encodes single ones.
type postProcessorSpec struct {
	Type          string                     `json:"type"`
	Processors    []postProcessorSpec        `json:"processors"`     // Sequence
	Single        []templatePart             `json:"single"`         // TemplateProcessing
	SpecialTokens map[string]templateSpecial `json:"special_tokens"` // TemplateProcessing
}

// templatePart is a place in a template: one of its two fields is set.
type templatePart struct {
	Sequence     *struct{ ID string }
	SpecialToken *struct{ ID string }
}

// templateSpecial is what a name in a template stands for.
type templateSpecial struct {
	IDs []int32 `json:"ids"`
}

// newPostProcessor builds the post-processor that the field at path describes, for
// a tokenizer with the given tokens.
func newPostProcessor(s *postProcessorSpec, path string, tokens map[int32]string) (postProcessor, error) {
	none := func(ids []int32) []int32 { return ids }
	if s == nil {
		return none, nil
	}
	switch s.Type {
	case "ByteLevel": // only trims offsets, which we do not have
		return none, nil
	case "TemplateProcessing":
		return newTemplate(s, path, tokens)
	case "Sequence":
		build := func(s *postProcessorSpec, path string) (postProcessor, error) {
			return newPostProcessor(s, path, tokens)
		}
		return chain(s.Processors, path, "processors", build)
	}
	return nil, unsupported(path+".type", s.Type, "TemplateProcessing", "ByteLevel", "Sequence")
}

// newTemplate puts fixed tokens before and after the text.
func newTemplate(s *postProcessorSpec, path string, tokens map[int32]string) (postProcessor, error) {
	var before, after []int32
	seen := false
	for i, part := range s.Single {
		ids, isText, err := part.resolve(s.SpecialTokens, tokens)
		if err == nil && isText && seen {
			err = errors.New("the text stands twice in the template")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at(path, "single", i), err)
		}
		seen = seen || isText
		if seen {
			after = append(after, ids...)
		} else {
			before = append(before, ids...)
		}
	}
	if !seen {
		return nil, fmt.Errorf(`%s.single: the text (Sequence "A") is not in the template`, path)
	}
	return func(ids []int32) []int32 {
		out := make([]int32, 0, len(before)+len(ids)+len(after))
		return append(append(append(out, before...), ids...), after...)
	}, nil
}

// resolve returns the ids that a part stands for, or that it stands for the text.
func (p templatePart) resolve(special map[string]templateSpecial,
	tokens map[int32]string) (ids []int32, isText bool, err error) {
	switch {
	case p.Sequence != nil && p.Sequence.ID == "A":
		return nil, true, nil
	case p.Sequence != nil:
		return nil, false, unsupported("Sequence.id", p.Sequence.ID, "A")
	case p.SpecialToken == nil:
		return nil, false, errors.New("supported: Sequence, SpecialToken")
	}
	token, ok := special[p.SpecialToken.ID]
	if !ok {
		return nil, false, fmt.Errorf("SpecialToken.id: %q is not among special_tokens", p.SpecialToken.ID)
	}
	for _, id := range token.IDs {
		if _, ok := tokens[id]; !ok {
			return nil, false, fmt.Errorf("SpecialToken.id: %q has the id %d, which no token has", p.SpecialToken.ID, id)
		}
	}
	return token.IDs, false, nil
}
