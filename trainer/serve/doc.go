// Package serve answers over HTTP in the form of OpenAI's API, as far as an [Engine] can: chat completions and
// completions, whole or as they come. It knows nothing of files and flags; who has loaded the models hands them to
// [Server.Ready].
package serve
