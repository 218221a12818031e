package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/serve"
)

const serveLong = `Answer over HTTP in the form of OpenAI's API: /v1/chat/completions and
/v1/completions, whole or as they come, /v1/models, /health, /metrics for
Prometheus, and a page to talk at /. docs/serve.md has what requests may say.

Nobody but this machine is answered unless --host says so; give --api-key then.
How tokens are chosen is what a request says, and else the model's
generation_config.json; without that file it is the likeliest token.

Ctrl-C or SIGTERM ends the server: it takes no more requests, lets those that it
has go on for the time of --grace, and cancels what is left.`

const serveExamples = `tune serve --model DIR
tune serve --model DIR --adapter support=DIR2 --adapter legal=DIR3 --port 8000
TUNE_API_KEY=secret tune serve --model DIR --host 0.0.0.0
curl http://127.0.0.1:8080/v1/completions -d '{"prompt": "Once upon"}'
`

const apiKeyEnv = "TUNE_API_KEY"

// serveFlags are the values of serve's flags.
type serveFlags struct {
	inferenceFlags
	serve.Config
	adapters       []string // NAME=FOLDER
	beside         []namedAdapter
	name, template string
	host           string
	port           int
	maxBody        byteSize
	size           engineSize
	grace          time.Duration
	quiet          bool
}

func (a *app) serveCommand() *Command {
	c := &Command{Name: "serve", Usage: "--model DIR [FLAGS]", Short: "answer over HTTP as OpenAI's API does",
		Long: serveLong, Examples: serveExamples}
	f := &serveFlags{inferenceFlags: newInferenceFlags(), maxBody: byteSize{"4MiB", 4 << 20}}
	f.addModels(c.Group("Models"))
	f.addAddress(c.Group("Address and access"))
	f.addLimits(c.Group("Limits"))
	f.addMachine(c.Group("Machine"), "`PIECES` of text (a piece of a prompt, or one token)")
	c.Group("Output").BoolVar(&f.quiet, "quiet", false, "write no line for each request")
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := f.check(c); err != nil {
			return err
		}
		return a.serve(ctx, c, f)
	})
}

func (f *serveFlags) addModels(s *pflag.FlagSet) {
	s.StringVar(&f.Model, "model", "", "the model `FOLDER`")
	s.StringVar(&f.name, "served-model-name", "", "the `NAME` that clients call the model; without, its folder's")
	s.StringArrayVar(&f.adapters, "adapter", nil, "an adapter, `NAME=FOLDER`, that answers to NAME, beside the model "+
		"itself; may be given several times. All share the model's weights")
	s.StringVar(&f.template, "template", "", "the built-in chat template with this `NAME`, instead of the model's: "+
		strings.Join(chat.Names(), ", "))
}

func (f *serveFlags) addAddress(s *pflag.FlagSet) {
	s.StringVar(&f.host, "host", "127.0.0.1", "the `ADDRESS` to listen at; 0.0.0.0 is all of this machine's")
	s.IntVar(&f.port, "port", 8080, "the `PORT`; 0 for one that is free")
	s.StringVar(&f.Key, "api-key", "", "the `KEY` that clients must send; better given as $"+apiKeyEnv+
		", which other users of the machine cannot see")
	s.StringArrayVar(&f.Origins, "allow-origin", nil, "let pages of this `ORIGIN`, such as https://example.org, use the "+
		"server; * for all, which is so with a key; may be given several times")
}

func (f *serveFlags) addLimits(s *pflag.FlagSet) {
	f.size.add(s, "`TEXTS`")
	s.IntVar(&f.MaxTexts, "max-requests", 128, "the most `TEXTS` that are written or wait; who asks for more gets 429")
	s.IntVar(&f.MaxNewTokens, "max-new-tokens", 0, "the most `TOKENS` of an answer, whatever is asked for; 0 for as "+
		"many as there is room for")
	s.IntVar(&f.size.Limit, "max-tokens", 0, "the most `TOKENS` of prompt and answer together; 0 for as many as the "+
		"model can take")
	s.Var(&f.maxBody, "max-body", "the largest request, a `SIZE` such as 4MiB")
	s.DurationVar(&f.grace, "grace", 30*time.Second, "the `TIME` that requests may go on at the end")
}

// check validates what needs no file.
func (f *serveFlags) check(c *Command) error {
	if err := f.inferenceFlags.check(c); err != nil {
		return err
	}
	if err := f.size.check(c); err != nil {
		return err
	}
	switch {
	case f.MaxNewTokens < 0:
		return c.usagef("--max-new-tokens is %d, must not be negative", f.MaxNewTokens)
	case f.size.Limit < 0:
		return c.usagef("--max-tokens is %d, must not be negative", f.size.Limit)
	case f.grace < 0:
		return c.usagef("--grace is %v, must not be negative", f.grace)
	case f.host == "":
		return c.usagef("--host is empty: name an address; 0.0.0.0 is all of this machine's")
	case f.port < 0 || f.port > 65535:
		return c.usagef("--port is %d, must be between 0 and 65535", f.port)
	case f.MaxTexts < 1:
		return c.usagef("--max-requests is %d, must be positive", f.MaxTexts)
	case f.maxBody.bytes < 1:
		return c.usagef("--max-body must be positive")
	case c.Flags.Changed("api-key") && f.Key == "":
		return c.usagef("--api-key is empty: name a key, or leave the flag out")
	}
	if key := cmp.Or(f.Key, os.Getenv(apiKeyEnv)); key != "" {
		if f.Key = strings.TrimSpace(key); f.Key == "" { // as that of a client is
			return c.usagef("--api-key or $%s has nothing but spaces: name a key", apiKeyEnv)
		}
	}
	if f.template != "" {
		if err := c.oneOf("template", f.template, chat.Names()...); err != nil {
			return err
		}
	}
	return f.nameModels(c)
}

// namedAdapter is the adapter of a folder.
type namedAdapter struct{ name, dir string }

// nameModels finds out what clients call the model and its adapters.
func (f *serveFlags) nameModels(c *Command) error {
	dir, err := filepath.Abs(f.Model)
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	f.name = cmp.Or(f.name, filepath.Base(dir))
	for _, adapter := range f.adapters {
		name, dir, _ := strings.Cut(adapter, "=")
		if name == "" || dir == "" {
			return c.usagef("--adapter is %q; it takes NAME=FOLDER", adapter)
		}
		if name == f.name || slices.ContainsFunc(f.beside, func(b namedAdapter) bool { return b.name == name }) {
			return c.usagef("--adapter has the name %q, which another model has, too", name)
		}
		f.beside = append(f.beside, namedAdapter{name, dir})
	}
	return nil
}

// config returns what the server allows.
func (f *serveFlags) config(a *app) serve.Config {
	s := f.Config
	level := slog.LevelInfo
	if f.quiet {
		level = slog.LevelWarn
	}
	s.Logger = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	s.MaxBody = f.maxBody.bytes
	if s.Key != "" && s.Origins == nil {
		s.Origins = []string{"*"} // pages that know the key may ask
	}
	address, err := netip.ParseAddr(f.host)
	if s.Key == "" && (f.host == "localhost" || err == nil && address.IsLoopback()) {
		s.Hosts = []string{f.host}
	}
	return s
}

func (a *app) serve(ctx context.Context, c *Command, f *serveFlags) (err error) {
	server, err := serve.New(f.config(a))
	if err != nil {
		return c.misuse(fmt.Errorf("--allow-origin: %w", err))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("--host, --port: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener, f.grace) }()
	a.note("listening at http://%s", listener.Addr())
	if server.Key == "" && server.Hosts == nil {
		a.note("whoever reaches %s may use it: --api-key or $%s asks for a key", f.host, apiKeyEnv)
	}
	served, err := a.openServed(ctx, c, f)
	defer closing(served, &err)
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	server.Ready(served.models)
	a.note("ready: %s", strings.Join(served.names(), ", "))
	defer meanwhile(func(done <-chan struct{}) {
		select {
		case <-a.abort:
			server.Cancel()
		case <-done:
		}
	})()
	return <-ended
}
