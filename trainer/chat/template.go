package chat

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/seed98097648/tune/internal/jinja"
)

// ErrNoTemplate is returned by Load for a model without a chat template: a base model, or
// one whose template has to be named (see Named).
var ErrNoTemplate = errors.New("the model has no chat template")

// Template is a model's chat template with the special tokens it may write. It may be
// used by any number of goroutines at once.
type Template struct {
	// Now is the clock that templates ask for the date; nil is time.Now. A test or a
	// run that must repeat exactly sets it.
	Now func() time.Time

	main    *jinja.Template
	toolUse *jinja.Template // for conversations with tools, or nil
	tokens  map[string]any  // bos_token, eos_token ...
	plain   bool            // it writes nothing but text
	marks   []string        // what a built-in one writes around messages as special tokens
}

const (
	templateFile  = "chat_template.jinja"
	configFile    = "tokenizer_config.json"
	moreTemplates = "additional_chat_templates"
	toolsTemplate = moreTemplates + "/tool_use.jinja"
)

// MoreTemplates returns the names, with a slash, of the files in a model's folder that have its other chat templates,
// those that are for conversations of a kind.
func MoreTemplates(dir string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, moreTemplates))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if name := moreTemplates + "/" + e.Name(); IsTemplate(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// IsTemplate reports whether a file of a model's folder with this name is a chat template.
func IsTemplate(name string) bool { return name == templateFile || another.MatchString(name) }

var another = regexp.MustCompile("^" + moreTemplates + `/[\w.-]+\.jinja$`)

// Load reads the chat template of the model in dir: the file chat_template.jinja, else
// chat_template of tokenizer_config.json, which is a template or a list of named ones, of
// which "default" is used and, for conversations with tools, "tool_use". The error wraps
// ErrNoTemplate if there is none.
func Load(dir string) (*Template, error) { return load(dir, dir) }

// LoadAdapted is Load for a model with an adapter, whose folder is empty for none. A chat
// template in there is the one that the adapter was trained on, and comes before the
// model's; so do special tokens that are named beside it.
func LoadAdapted(dir, adapter string) (*Template, error) {
	if adapter != "" {
		if t, err := load(adapter, dir, adapter); !errors.Is(err, ErrNoTemplate) {
			return t, err
		}
	}
	return Load(dir)
}

// load reads the template of a folder, with the special tokens of some, the last first.
func load(from string, dirs ...string) (*Template, error) {
	config, err := readObject(from, configFile)
	if err != nil {
		return nil, err
	}
	texts, err := readTexts(from, config)
	if err != nil {
		return nil, err
	}
	t := &Template{tokens: map[string]any{}}
	for _, dir := range dirs {
		tokens, err := specialTokens(dir)
		if err != nil {
			return nil, err
		}
		maps.Copy(t.tokens, tokens)
	}
	if t.main, err = jinja.Parse(texts.name, texts.main); err != nil {
		return nil, fmt.Errorf("%s: the chat template cannot be read: %w", from, err)
	}
	if texts.toolUse != "" {
		if t.toolUse, err = jinja.Parse(texts.name+" (tool_use)", texts.toolUse); err != nil {
			return nil, fmt.Errorf("%s: the chat template for tools cannot be read: %w", from, err)
		}
	}
	return t, nil
}

// Parse makes a template of its text; name is what errors call it. The variables are the
// special tokens that it may write, such as bos_token and eos_token.
func Parse(name, text string, tokens map[string]string) (*Template, error) {
	parsed, err := jinja.Parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be read: %w", err)
	}
	t := &Template{main: parsed, tokens: map[string]any{}}
	for role, token := range tokens {
		t.tokens[role] = token
	}
	return t, nil
}

// texts are the templates of a model, not parsed yet.
type texts struct{ name, main, toolUse string }

func readTexts(dir string, config *Object) (texts, error) {
	main, err := readFile(dir, templateFile)
	if err == nil {
		toolUse, err := readFile(dir, toolsTemplate)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return texts{templateFile, string(main), string(toolUse)}, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return texts{}, err
	}
	value, _ := config.Get("chat_template")
	switch value := value.(type) {
	case nil:
		return texts{}, fmt.Errorf("%s: %w: it has neither %s nor chat_template in %s; name a built-in template (%s)",
			dir, ErrNoTemplate, templateFile, configFile, nameList())
	case string:
		return texts{name: "chat_template", main: value}, nil
	case []any:
		return namedTexts(dir, value)
	}
	return texts{}, fmt.Errorf("%s: %s: chat_template: want a string or a list of named templates, have %s",
		dir, configFile, jinja.TypeName(value))
}

// namedTexts picks from a list of objects with name and template.
func namedTexts(dir string, list []any) (texts, error) {
	out := texts{name: "chat_template"}
	for i, item := range list {
		object, ok := item.(*Object)
		if !ok {
			return out, fmt.Errorf("%s: %s: chat_template[%d]: want an object with name and template", dir, configFile, i)
		}
		name, _ := object.Get("name")
		text, _ := object.Get("template")
		s, ok := text.(string)
		if !ok {
			return out, fmt.Errorf("%s: %s: chat_template[%d].template: want a string, have %s", dir, configFile, i,
				jinja.TypeName(text))
		}
		switch name {
		case "default":
			out.main = s
		case "tool_use":
			out.toolUse = s
		}
	}
	if out.main == "" {
		return out, fmt.Errorf("%s: %s: chat_template: none of its %d templates is called default", dir, configFile,
			len(list))
	}
	return out, nil
}

// readObject reads a JSON object; a file that is not there is an empty one.
func readObject(dir, name string) (*Object, error) {
	data, err := readFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object := new(Object)
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return object, nil
}

// maxFile bounds what is read of a model's folder: a tokenizer_config.json with many added
// tokens has a few MB.
const maxFile = 64 << 20

func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %d bytes; at most %d are read", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// specialTokens reads the special tokens that transformers makes variables of: fields such as bos_token, and those
// that are named in an object of a model's own. It reads them from tokenizer_config.json and, where that lacks one,
// from special_tokens_map.json. A token is a string or an object with content; a token that is
// null is no variable, so that it prints as nothing.
func specialTokens(dir string) (map[string]any, error) {
	config, err := readObject(dir, configFile)
	if err != nil {
		return nil, err
	}
	older, err := readObject(dir, "special_tokens_map.json")
	if err != nil {
		return nil, err
	}
	tokens := map[string]any{}
	for _, source := range []*Object{older, config} {
		named, _ := source.Get("extra_special_tokens") // a list has no names
		newer, _ := source.Get("model_specific_special_tokens")
		for _, from := range []any{source, named, newer} {
			object, _ := from.(*Object)
			for key, value := range object.All() {
				role, _ := key.(string)
				if token, ok := tokenText(value); ok && strings.HasSuffix(role, "_token") {
					tokens[role] = token
				}
			}
		}
		if list, ok := additional(source); ok {
			tokens["additional_special_tokens"] = list
		}
	}
	return tokens, nil
}

func tokenText(value any) (string, bool) {
	if object, ok := value.(*Object); ok {
		value, _ = object.Get("content")
	}
	token, ok := value.(string)
	return token, ok
}

func additional(source *Object) ([]any, bool) {
	value, _ := source.Get("additional_special_tokens")
	list, ok := value.([]any)
	var tokens []any
	for _, item := range list {
		if token, ok := tokenText(item); ok {
			tokens = append(tokens, token)
		}
	}
	return tokens, ok
}

// Render writes a conversation as the template says. With addGenerationPrompt the text
// ends where the assistant's next words begin.
func (t *Template) Render(c Conversation, addGenerationPrompt bool) (string, error) {
	out, err := t.render(c, addGenerationPrompt)
	return out.Text, err
}

func (t *Template) render(c Conversation, addGenerationPrompt bool) (jinja.Output, error) {
	if t.plain {
		if err := plainOnly(c); err != nil {
			return jinja.Output{}, err
		}
	}
	messages := make([]any, len(c.Messages))
	for i := range c.Messages {
		messages[i] = c.Messages[i].object()
	}
	vars := map[string]any{
		"messages":              messages,
		"tools":                 nil,
		"documents":             nil,
		"add_generation_prompt": addGenerationPrompt,
	}
	maps.Copy(vars, t.tokens)
	if len(c.Tools) > 0 {
		vars["tools"] = c.Tools
	}
	maps.Copy(vars, c.Vars)
	out, err := t.choose(c).Render(vars, jinja.Options{Now: t.Now})
	if _, ok := errors.AsType[jinja.Raised](err); ok {
		return out, fmt.Errorf("the chat template refuses the conversation: %w", err)
	}
	return out, err
}

func (t *Template) choose(c Conversation) *jinja.Template {
	if len(c.Tools) > 0 && t.toolUse != nil {
		return t.toolUse
	}
	return t.main
}
