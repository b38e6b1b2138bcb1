// Package llm asks language models over HTTP, in the formats of OpenAI and Anthropic. A call is one request: it
// repeats nothing by itself, so that every attempt is seen, counted and paid for once.
package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/replybody"
	"github.com/pawl-dev/pawl/retryafter"
	"github.com/pawl-dev/pawl/tlscause"
)

// Formats on the wire.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// Config says how to reach a provider.
type Config struct {
	ID             string // its name in the configuration
	Type           string // [OpenAI] or [Anthropic]
	BaseURL        string
	Key            string
	Timeout        time.Duration
	MaxAnswerBytes int64
	MaxConcurrency int
	Models         map[string]Price
	Logger         *slog.Logger
}

// Price of a model, in dollars per million tokens.
type Price struct{ Input, Output float64 }

// Cost of a call in nano-dollars.
func (p Price) Cost(u Usage) int64 {
	perThousand := func(dollars float64, tokens int64) int64 { return int64(math.Round(dollars*1e6)) * tokens }
	return (perThousand(p.Input, u.Input) + perThousand(p.Output, u.Output) + 999) / 1000
}

// Usage counts tokens.
type Usage struct{ Input, Output int64 }

// Answer is what a model answered. Tokens and cost count for answers that failed, too.
type Answer struct {
	Text  string
	Usage Usage
	Cost  int64 // nano-dollars
}

// Kinds of failure, beside timeouts and such.
const (
	KindRateLimit pawl.Kind = "RateLimit"     // come back later
	KindQuota     pawl.Kind = "Quota"         // the money, or the plan, is used up
	KindAuth      pawl.Kind = "Auth"          // the key is refused
	KindServer    pawl.Kind = "LLMServer"     // 5xx
	KindAway      pawl.Kind = "Unreachable"   // there is no connection
	KindAnswer    pawl.Kind = "LLMAnswer"     // an answer that is cut off, too long or not understood
	KindContext   pawl.Kind = "ContextLength" // the document is too long for the model
	KindRequest   pawl.Kind = "LLMRequest"    // the provider refuses what it was asked
)

// Provider is one that was configured. It is safe for concurrent use.
type Provider struct {
	Config
	http *http.Client

	mu        sync.Mutex
	notBefore time.Time // advertised: nothing is left until then
}

// New makes a provider. Nothing is sent yet.
func New(c Config) *Provider {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: max(c.MaxConcurrency, 2),
		IdleConnTimeout:   90 * time.Second,
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second,
	}
	c.Logger.Info("Provider initialized", "provider_id", c.ID, "type", c.Type, "base_url", c.BaseURL)
	// A redirect would send a second, uncounted request, with the key, to a host that is not configured.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Provider{Config: c, http: &http.Client{Transport: t, CheckRedirect: stay}}
}

// Validate asks the provider whether it accepts the key.
func (p *Provider) Validate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := p.request(ctx, http.MethodGet, "/models", nil, pawl.NewID())
	if err != nil {
		return err
	}
	resp, err := p.do(r)
	if err != nil {
		return fmt.Errorf("provider %s does not answer: %w", p.ID, err)
	}
	defer func() { _ = resp.Body.Close() }()
	defer replybody.Bound(ctx, resp)()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		return p.refused(resp, body)
	}
	return nil // other errors about its models do not prevent asking one
}

// do sends a request; where TLS fails, the error says why.
func (p *Provider) do(r *http.Request) (*http.Response, error) {
	resp, err := p.http.Do(r)
	return resp, tlscause.Explain(err, tlscause.Advice{Name: "use a name that it states in base_url"})
}

func (p *Provider) request(ctx context.Context, method, path string, body []byte, id string) (*http.Request, error) {
	base := strings.TrimSuffix(p.BaseURL, "/")
	if p.Type == Anthropic {
		path = "/v1" + path
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", id)
	if p.Type == Anthropic {
		r.Header.Set("X-Api-Key", p.Key)
		r.Header.Set("Anthropic-Version", "2023-06-01")
	} else if p.Key != "" {
		r.Header.Set("Authorization", "Bearer "+p.Key)
	}
	return r, nil
}

// Complete sends the text of a file with a prompt to a model, once. What it cost is in the answer, with an error, too.
func (p *Provider) Complete(ctx context.Context, file, model, prompt, text string) (Answer, error) {
	if err := p.wait(ctx); err != nil {
		return Answer{}, err
	}
	id := pawl.NewID()
	path, body := p.encode(model, prompt, text)
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	r, err := p.request(ctx, http.MethodPost, path, body, id)
	if err != nil {
		return Answer{}, err
	}
	log := func(level slog.Level, what string, args ...any) {
		who := []any{"provider", p.ID, "model", model, "request_id", id}
		p.Logger.Log(ctx, level, what, slices.Concat(who, args, []any{"file", file})...)
	}
	log(slog.LevelDebug, "Sending LLM Request", "method", r.Method, "url", r.URL.String())
	start := time.Now()
	resp, err := p.do(r)
	if err != nil {
		log(slog.LevelWarn, "LLM Request failed", "error", err, "duration", time.Since(start))
		return Answer{}, lost(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	defer replybody.Bound(ctx, resp)()
	data, err := io.ReadAll(io.LimitReader(resp.Body, p.MaxAnswerBytes+1))
	log(slog.LevelDebug, "LLM Response received", "status", resp.StatusCode, "duration", time.Since(start))
	p.advertised(resp.Header)
	switch {
	case err != nil:
		return Answer{}, lost(ctx, err)
	case int64(len(data)) > p.MaxAnswerBytes:
		return Answer{}, pawl.OfKind(KindAnswer, fmt.Errorf("the answer is longer than max_answer_bytes, %d",
			p.MaxAnswerBytes))
	case resp.StatusCode != http.StatusOK:
		err := p.refused(resp, data)
		what := "LLM Request refused"
		if resp.StatusCode >= http.StatusInternalServerError {
			what = "LLM Request failed"
		}
		log(slog.LevelWarn, what, "status", resp.StatusCode, "error", err)
		return Answer{}, err
	}
	a, err := p.decode(data)
	a.Cost = p.Models[model].Cost(a.Usage)
	log(slog.LevelInfo, "LLM Usage", "input_tokens", a.Usage.Input, "output_tokens", a.Usage.Output,
		"cost", fmt.Sprintf("%.9f", float64(a.Cost)/1e9))
	return a, err
}

// lost makes an error of an answer that did not come.
func lost(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, pawl.ErrDrain) || errors.Is(cause, context.Canceled) {
		return cause
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" { // the document is not the cause
		return pawl.Throttled(pawl.OfKind(KindAway, fmt.Errorf("no connection: %w", err)), time.Second)
	}
	return policy.With(pawl.OfKind("Timeout", fmt.Errorf("no answer: %w", err)), policy.Timeout)
}

// wait is over when the provider said that it has something left.
func (p *Provider) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		d := time.Until(p.notBefore)
		p.mu.Unlock()
		if d <= 0 {
			return nil
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// maxPause bounds what is believed of an advertised pause.
const maxPause = 5 * time.Minute

// advertised reads what an answer says about what is left.
func (p *Provider) advertised(h http.Header) {
	for _, name := range []string{"X-Ratelimit-%s-Requests", "X-Ratelimit-%s-Tokens", "Anthropic-Ratelimit-Requests-%s",
		"Anthropic-Ratelimit-Tokens-%s", "Anthropic-Ratelimit-Input-Tokens-%s", "Anthropic-Ratelimit-Output-Tokens-%s"} {
		if h.Get(fmt.Sprintf(name, "Remaining")) != "0" {
			continue
		}
		reset := h.Get(fmt.Sprintf(name, "Reset"))
		until := time.Time{}
		if d, err := time.ParseDuration(reset); err == nil {
			until = time.Now().Add(min(d, maxPause))
		} else if t, err := time.Parse(time.RFC3339, reset); err == nil {
			until = time.Now().Add(min(time.Until(t), maxPause))
		}
		p.mu.Lock()
		if until.After(p.notBefore) {
			p.notBefore = until
		}
		p.mu.Unlock()
	}
}

// refused makes an error of a status: which of the kinds of 429 it is, among others.
func (p *Provider) refused(resp *http.Response, body []byte) error {
	var e struct {
		Error struct {
			Type, Message string
			Code          any
		}
	}
	_ = json.Unmarshal(body, &e)
	text := strings.ToLower(e.Error.Type + " " + fmt.Sprint(e.Error.Code) + " " + e.Error.Message)
	said := fmt.Errorf("provider %s answered %d: %s", p.ID, resp.StatusCode,
		cmp.Or(e.Error.Message, strings.TrimSpace(string(body[:min(len(body), 200)]))))
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch c := resp.StatusCode; {
	case c == http.StatusPaymentRequired,
		(c == http.StatusTooManyRequests || c == http.StatusForbidden || c == http.StatusBadRequest) &&
			has("insufficient_quota", "quota", "billing", "spend", "credit balance"):
		return pawl.OfKind(KindQuota, said)
	case c == http.StatusTooManyRequests, c == 529, c == http.StatusServiceUnavailable &&
		resp.Header.Get("Retry-After") != "":
		return pawl.Throttled(pawl.OfKind(KindRateLimit, said), retryAfter(resp.Header))
	case c == http.StatusUnauthorized || c == http.StatusForbidden:
		return pawl.OfKind(KindAuth, said)
	case c == http.StatusRequestEntityTooLarge, c == http.StatusBadRequest &&
		has("context", "too long", "maximum", "max_tokens"):
		return pawl.Permanent(pawl.OfKind(KindContext, said))
	case c >= 500 || c == http.StatusRequestTimeout || c == http.StatusConflict:
		return pawl.OfKind(KindServer, said)
	}
	return pawl.Permanent(pawl.OfKind(KindRequest, said))
}

// retryAfter is when to come back; a second if the answer does not say.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return time.Duration(min(ms, float64(maxPause.Milliseconds())) * float64(time.Millisecond))
	}
	if wait, ok := retryafter.Of(h); ok {
		return min(wait, maxPause)
	}
	return time.Second
}
