package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Engine is where texts come from; a generate.Engine is one. Its methods are safe for concurrent use.
type Engine interface {
	Generate(ctx context.Context, q generate.Request) (*generate.Result, error)
	Stats() generate.Stats
	Limit() int // the most tokens that a text can have with its prompt
}

// Model is what a client asks for by its name.
type Model struct {
	Name      string
	Engine    Engine
	Adapter   string // of the engine; empty for the model alone
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template    // nil for a model that has none, which answers no conversations
	Sampling  generate.Sampling // where a request does not say
	EOS       []int32           // each of these tokens ends a text
	tools     *toolForm         // nil for a template whose calls of tools are not known
}

// Config is what a server allows.
type Config struct {
	Key          string   // what clients must know; empty for nothing
	Origins      []string // of pages that may use the server beside its own, such as https://example.org; * for all
	Hosts        []string // names that it may be called by, beside numbers and localhost; nil for any
	MaxBody      int64    // bytes of a request
	MaxTexts     int      // that are written or wait; who asks for more is told to come again
	MaxNewTokens int      // the most that a request gets, whatever it asks for; 0 for as many as there is room for
	Logger       *slog.Logger
}

// Server is an http.Handler.
type Server struct {
	Config
	handler http.Handler
	models  atomic.Pointer[[]Model] // nil while they are loaded
	created time.Time
	texts   atomic.Int64 // that are written or wait
	metrics metrics
	ctx     context.Context // ends when texts have to
	cancel  context.CancelFunc
}

var _ http.Handler = (*Server)(nil)

// New returns a server that has no models yet: it says so until Ready is called.
func New(c Config) (*Server, error) {
	s := &Server{Config: c, created: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil && !errors.Is(err, errGone) {
				writeError(w, err)
			}
		})
	}
	handle("GET /{$}", s.page)
	handle("GET /health", s.health)
	handle("GET /metrics", s.keyed(s.writeMetrics))
	handle("GET /v1/models", s.keyed(s.listModels))
	handle("GET /v1/models/{name...}", s.keyed(s.showModel))
	handle("POST /v1/chat/completions", s.keyed(s.chat))
	handle("POST /v1/completions", s.keyed(s.complete))
	handle("/", s.keyed(unknownPath))
	guarded, err := s.guarded(mux)
	if err != nil {
		return nil, err
	}
	s.handler = s.watched(guarded)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Ready gives the server its models, of which there must be one; the first answers who names none.
func (s *Server) Ready(models []Model) {
	models = slices.Clone(models)
	for i := range models {
		models[i].tools = toolFormOf(models[i].Template)
	}
	s.models.Store(&models)
}

// Cancel ends all texts where they are. Who waits for one gets an error.
func (s *Server) Cancel() { s.cancel() }

// health says whether there are models.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	if _, err := s.loaded(); err != nil {
		return err
	}
	return writeJSON(w, struct {
		Status string `json:"status"`
	}{"ok"})
}

func (s *Server) loaded() ([]Model, error) {
	if m := s.models.Load(); m != nil {
		return *m, nil
	}
	return nil, &apiError{status: http.StatusServiceUnavailable, retry: 2, Kind: serverError,
		Message: "the model is being loaded; come again"}
}

// modelObject is a model in the form of the API.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Parent  string `json:"parent,omitempty"` // of an adapter: the model that it is for
}

// object describes one of the models, whose first is the parent of adapters.
func (s *Server) object(m, first *Model) modelObject {
	o := modelObject{ID: m.Name, Object: "model", Created: s.created.Unix(), OwnedBy: "tune"}
	if m.Adapter != "" {
		o.Parent = first.Name
	}
	return o
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) error {
	models, err := s.loaded()
	if err != nil {
		return err
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list"}
	for i := range models {
		list.Data = append(list.Data, s.object(&models[i], &models[0]))
	}
	return writeJSON(w, list)
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	m, err := s.model(r.PathValue("name"))
	if err != nil {
		return err
	}
	return writeJSON(w, s.object(m, &(*s.models.Load())[0]))
}

// model returns the one with that name, or the first for none.
func (s *Server) model(name string) (*Model, error) {
	models, err := s.loaded()
	if err != nil {
		return nil, err
	}
	for i := range models {
		if models[i].Name == name || name == "" {
			return &models[i], nil
		}
	}
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	return nil, notFound("model", "model_not_found", "there is no model %q here; there is %q", name, names)
}

// admit makes room for n texts after each of some prompts, among those that are written or wait, until release is
// called.
func (s *Server) admit(n, prompts int) (release func(), err error) {
	texts := n * prompts
	if most := s.MaxTexts; texts > most {
		param := "prompt"
		if n > most {
			param = "n"
		}
		return nil, badRequest(param, "%d texts at once; this server takes %d", texts, most)
	}
	if now := s.texts.Add(int64(texts)); now > int64(s.MaxTexts) {
		s.texts.Add(-int64(texts))
		return nil, &apiError{status: http.StatusTooManyRequests, retry: 1, Kind: "rate_limit_error",
			Code: new("too_many_requests"), Message: "too many requests wait already; come again"}
	}
	return func() { s.texts.Add(-int64(texts)) }, nil
}
