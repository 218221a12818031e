package serve

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed98097648/tune/internal/plainjson"
)

// The kinds of errors that clients know.
const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

// apiError is an error in the form of the API.
type apiError struct {
	status  int
	retry   int     // seconds after which it is worth coming again; 0 for never
	Message string  `json:"message"`
	Kind    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// Error implements error.
func (e *apiError) Error() string { return e.Message }

// badRequest is for what will never work. The parameter may be empty.
func badRequest(param, format string, args ...any) *apiError {
	e := &apiError{status: http.StatusBadRequest, Kind: invalidRequest, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

func notFound(param, code, format string, args ...any) *apiError {
	e := badRequest(param, format, args...)
	e.status, e.Kind, e.Code = http.StatusNotFound, "not_found_error", &code
	return e
}

// errEnding is for texts that the end of the server has cut.
var errEnding = &apiError{status: http.StatusServiceUnavailable, retry: 5, Kind: serverError,
	Message: "the server is ending"}

func unknownPath(_ http.ResponseWriter, r *http.Request) error {
	return notFound("", "unknown_url", "there is no %s %s here; docs/serve.md has what there is", r.Method, r.URL.Path)
}

// asAPI returns the form that a client gets. What is not its own fault has no details: they are in the log.
func asAPI(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	return &apiError{status: http.StatusInternalServerError, Kind: serverError,
		Message: "the server has failed at this request; its log says why"}
}

// errorBody is what a client gets instead of an answer.
type errorBody struct {
	Error *apiError `json:"error"`
}

func writeError(w http.ResponseWriter, err error) {
	e := asAPI(err)
	if seen, ok := w.(*watcher); ok {
		seen.failed(err)
	}
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retry))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// Who does not read this has gone.
	_ = writeStatus(w, e.status, errorBody{e})
}

func writeJSON(w http.ResponseWriter, v any) error { return writeStatus(w, http.StatusOK, v) }

func writeStatus(w http.ResponseWriter, status int, v any) error {
	extendWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := plainjson.Encode(w, v, ""); err != nil {
		return errGone
	}
	return nil
}

// errGone ends the work for a client that hangs up: there is nobody to tell.
var errGone = errors.New("the client has gone")
