// Package chaos has a provider of language models that misbehaves on purpose, and makes trees of files, to try out
// conversions. Both follow a seed, and the provider reports what it really did.
package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config says how the provider misbehaves.
type Config struct {
	LatencyMean, LatencyStddev time.Duration
	FailureRate                float64 // answers that are 500
	RateLimit                  float64 // answers that are 429, whatever the load
	Capacity                   int     // requests at once; more are 429. 0: any number
	Hang                       float64 // requests that are never answered
	OOM                        float64 // answers that are far too large
	Seed                       uint64
}

// Truth is what the provider did, and what it could have done.
type Truth struct {
	Requests     int64 `json:"requests"`
	Answered     int64 `json:"answered"`
	RateLimited  int64 `json:"rate_limited"`
	OverCapacity int64 `json:"over_capacity"` // of those
	Failed       int64 `json:"failed"`
	Hung         int64 `json:"hung"`
	Oversized    int64 `json:"oversized"`
	Aborted      int64 `json:"aborted"` // by the client, before the answer
	Validations  int64 `json:"validations"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// Repeated counts answers to a request that had been answered before: they were paid twice.
	Repeated    int64 `json:"repeated"`
	InFlight    int   `json:"in_flight"`
	MaxInFlight int   `json:"max_in_flight"`
	Capacity    int   `json:"capacity"`
	// Possible is how many answers a second the capacity allows.
	Possible       float64 `json:"possible_per_second"`
	ElapsedSeconds float64 `json:"elapsed_seconds"`
}

// Server is the provider.
type Server struct {
	http.ServeMux

	mu     sync.Mutex
	config Config
	rand   *rand.Rand
	truth  Truth
	asked  map[[sha256.Size]byte]*asked // by the text
	began  time.Time
}

// asked is what the provider knows of a request that may be repeated.
type asked struct {
	chance   float64 // from 0 to 1: what becomes of its next attempt
	answered bool
}

// New makes a provider.
func New(c Config) *Server {
	s := &Server{config: c, rand: rand.New(rand.NewPCG(c.Seed, c.Seed)), asked: map[[sha256.Size]byte]*asked{}}
	models := func(w http.ResponseWriter, _ *http.Request) {
		s.change(func(t *Truth) { t.Validations++ })
		reply(w, http.StatusOK, map[string]any{"object": "list",
			"data": []map[string]string{{"id": "small", "object": "model"}}})
	}
	s.HandleFunc("GET /v1/models", models)
	s.HandleFunc("POST /v1/chat/completions", s.complete(openAI))
	s.HandleFunc("POST /v1/messages", s.complete(anthropic))
	s.HandleFunc("GET /truth", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, s.Truth()) })
	s.HandleFunc("POST /capacity", s.setCapacity)
	return s
}

// Truth returns what the provider has done so far.
func (s *Server) Truth() Truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.truth
	t.Capacity = s.config.Capacity
	if t.Capacity > 0 && s.config.LatencyMean > 0 {
		answered := 1 - s.config.FailureRate - s.config.RateLimit
		t.Possible = float64(t.Capacity) / s.config.LatencyMean.Seconds() * answered
	}
	if !s.began.IsZero() {
		t.ElapsedSeconds = time.Since(s.began).Seconds()
	}
	return t
}

// setCapacity changes the capacity while it runs: POST /capacity with a number.
func (s *Server) setCapacity(w http.ResponseWriter, r *http.Request) {
	var n int
	if err := json.NewDecoder(io.LimitReader(r.Body, 64)).Decode(&n); err != nil || n < 0 {
		reply(w, http.StatusBadRequest, map[string]string{"error": "send a number"})
		return
	}
	s.mu.Lock()
	s.config.Capacity = n
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// fate is what becomes of a request.
type fate struct {
	status    int
	latency   time.Duration
	hang, oom bool
}

// goldenRatio, as the step from one chance to the next, spreads the failures of a request evenly over its attempts.
const goldenRatio = 0.6180339887498949

// decide draws a fate. The seed sets the order of refusals and latencies, and how the attempts of a request fail.
// Those failures pass: unless most attempts are to fail, no request fails so often in a row that it is given up.
func (s *Server) decide(text string) fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.config
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.truth.Requests++
	s.truth.InFlight++
	s.truth.MaxInFlight = max(s.truth.MaxInFlight, s.truth.InFlight)
	draw, delay := s.rand.Float64(), s.rand.NormFloat64()
	latency := c.LatencyMean + time.Duration(delay*float64(c.LatencyStddev))
	f := fate{status: http.StatusOK, latency: max(latency, c.LatencyMean/10)}
	over := c.Capacity > 0 && s.truth.InFlight > c.Capacity
	if over || draw < c.RateLimit {
		s.truth.RateLimited++
		if over {
			s.truth.OverCapacity++
		}
		f.status, f.latency = http.StatusTooManyRequests, c.LatencyMean/100
		return f
	}
	a := s.about(text)
	_, a.chance = math.Modf(a.chance + goldenRatio)
	switch share := a.chance * (1 - c.RateLimit); { // the shares are of all requests
	case share < c.FailureRate:
		f.status = http.StatusInternalServerError
	case share < c.FailureRate+c.Hang:
		f.hang = true
	case share < c.FailureRate+c.Hang+c.OOM:
		f.oom = true
	}
	return f
}

// about is what is known of a request with a text.
func (s *Server) about(text string) *asked {
	key := sha256.Sum256([]byte(text))
	if s.asked[key] == nil {
		r := rand.New(rand.NewPCG(s.config.Seed, binary.LittleEndian.Uint64(key[:])))
		s.asked[key] = &asked{chance: r.Float64()}
	}
	return s.asked[key]
}

// request has the members that both formats share.
type request struct {
	Model    string
	System   json.RawMessage
	Messages []struct {
		Role    string
		Content string
	}
}

// shape makes the answer of a provider.
type shape func(model, text string, in, out int64) any

func (s *Server) complete(shape shape) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q request
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		if err != nil || len(q.Messages) == 0 {
			reply(w, http.StatusBadRequest, failure("invalid_request_error", "the request is not JSON of this format"))
			return
		}
		text := q.Messages[len(q.Messages)-1].Content
		f := s.decide(text)
		defer s.change(func(t *Truth) { t.InFlight-- })
		if f.hang {
			s.change(func(t *Truth) { t.Hung++ })
			<-r.Context().Done()
			return
		}
		select {
		case <-time.After(f.latency):
		case <-r.Context().Done():
			s.change(func(t *Truth) { t.Aborted++ })
			return
		}
		switch f.status {
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
			reply(w, f.status, failure("rate_limit_error", "too many requests"))
			return
		case http.StatusInternalServerError:
			s.change(func(t *Truth) { t.Failed++ })
			reply(w, f.status, failure("api_error", "something went wrong"))
			return
		}
		s.answer(r.Context(), w, q.Model, text, f.oom, shape)
	}
}

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, model, text string, oom bool, shape shape) {
	if oom {
		s.change(func(t *Truth) { t.Oversized++ })
		line := strings.Repeat("all work and no play ", 4096)
		for range 1024 { // 80 MiB
			if _, err := io.WriteString(w, line); err != nil || ctx.Err() != nil {
				return
			}
		}
		return
	}
	in, out := int64(len(text)/4+20), int64(len(text)/4+1)
	s.mu.Lock()
	s.truth.Answered++
	s.truth.InputTokens += in
	s.truth.OutputTokens += out
	a := s.about(text)
	if a.answered {
		s.truth.Repeated++
	}
	a.answered = true
	s.mu.Unlock()
	reply(w, http.StatusOK, shape(model, text, in, out))
}

func (s *Server) change(f func(*Truth)) {
	s.mu.Lock()
	f(&s.truth)
	s.mu.Unlock()
}

func openAI(model, text string, in, out int64) any {
	return map[string]any{
		"object": "chat.completion", "model": model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": text},
		}},
		"usage": map[string]int64{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out},
	}
}

func anthropic(model, text string, in, out int64) any {
	return map[string]any{
		"type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn",
		"content": []any{map[string]string{"type": "text", "text": text}},
		"usage":   map[string]int64{"input_tokens": in, "output_tokens": out},
	}
}

func failure(kind, message string) any {
	return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
}

func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
