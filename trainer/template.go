package trainer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/chat"
)

// templateFile is the chat template of a model folder.
const templateFile = "chat_template.jinja"

// saysConversations reports whether a file says how a conversation is written.
func saysConversations(f File) bool {
	return chat.IsTemplate(f.Name) || f.Name == "tokenizer_config.json" || f.Name == "special_tokens_map.json"
}

// ChatTemplate returns the template that a model's conversations are written with: the
// built-in one of that name, if there is a name; else that of the adapter's folder, if there
// is an adapter and it has one, because it was trained so; else the model's.
func ChatTemplate(model, adapter, name string) (*chat.Template, error) {
	if name != "" {
		return chat.Named(name, model)
	}
	t, err := chat.LoadAdapted(model, adapter)
	if errors.Is(err, chat.ErrNoTemplate) {
		err = fmt.Errorf("%w with corpus.Config.Template", err)
	}
	return t, err
}

// folderFiles reads what a folder of the model holds beside config and weights, with the
// template of the adapter if that has one.
func folderFiles(model, adapter string) ([]File, error) {
	files, err := tokenizerFiles(model)
	if err != nil || adapter == "" {
		return files, err
	}
	if _, err := chat.Load(adapter); errors.Is(err, chat.ErrNoTemplate) {
		return files, nil
	} else if err != nil {
		return nil, err
	}
	own, err := tokenizerFiles(adapter)
	if err != nil {
		return nil, err
	}
	own = slices.DeleteFunc(own, func(f File) bool { return !saysConversations(f) })
	files = slices.DeleteFunc(files, func(f File) bool {
		isOwn := func(o File) bool { return o.Name == f.Name }
		return chat.IsTemplate(f.Name) || slices.ContainsFunc(own, isOwn)
	})
	return append(files, own...), nil
}
