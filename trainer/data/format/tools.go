package format

import (
	"errors"
	"fmt"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
)

// tools reads the functions that the assistant may call, in the form that chat templates
// expect: {"type": "function", "function": {"name": ...}}.
func (l Layout) tools(r records.Record) ([]any, error) {
	column := l.Columns.Tools
	list, err := l.list(r, column)
	older, failed := l.list(r, l.Columns.Functions)
	if len(list) == 0 && err == nil && (older != nil || failed != nil) {
		list, err, column = older, failed, l.Columns.Functions
	}
	for i, v := range list {
		o, ok := v.(*chat.Object)
		if !ok {
			return nil, fmt.Errorf("field %q: tool %d is not an object", column, i+1)
		}
		if _, ok := o.Get("function"); !ok {
			list[i] = function(o)
		}
	}
	return list, err
}

func function(o *chat.Object) *chat.Object {
	f := new(chat.Object)
	f.Set("type", "function")
	f.Set("function", o)
	return f
}

var errCall = errors.New(`a call must be JSON such as {"name": "f", "arguments": {}}, or a list of these`)

// toolCalls brings calls into the form of OpenAI's API, but with the arguments as an
// object, as chat templates expect them. They may be one call or a list, as JSON or in a
// string.
func toolCalls(v any) ([]any, error) {
	if s, ok := v.(string); ok {
		var err error
		if v, err = parse([]byte(s)); err != nil {
			return nil, fmt.Errorf("%w: %w", errCall, err)
		}
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	calls := make([]any, len(list))
	for i, v := range list {
		o, ok := v.(*chat.Object)
		if !ok {
			return nil, errCall
		}
		var err error
		if calls[i], err = toolCall(o); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

func toolCall(o *chat.Object) (*chat.Object, error) {
	inner, ok := o.Get("function")
	if !ok {
		inner, o = o, function(o)
	}
	in, ok := inner.(*chat.Object)
	if !ok {
		return nil, errCall
	}
	if name, _ := in.Get("name"); name == nil {
		return nil, errCall
	}
	f, all := new(chat.Object), new(chat.Object)
	for key, v := range in.All() {
		if s, ok := v.(string); ok && key == "arguments" {
			if parsed, err := parse([]byte(s)); err == nil {
				v = parsed
			}
		}
		f.Set(key.(string), v)
	}
	for key, v := range o.All() {
		all.Set(key.(string), v)
	}
	all.Set("function", f)
	return all, nil
}
