package wecom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/tlscause"
)

const (
	maxAnswer   = 48 << 20
	callTimeout = 30 * time.Second
	// firstBlock is how long an API is not called after the first 45009: the shortest window of a limit. It doubles
	// for as long as that does not help, up to the longest one.
	firstBlock = time.Minute
	mostBlock  = time.Hour
	// haltBlock is how long an API that refused a call is not called, until the pause of the pipeline is in effect
	// everywhere.
	haltBlock = 5 * time.Second
)

// client calls the API of WeCom. It repeats nothing but a call whose access token was refused, once: the policy
// decides about everything else.
type client struct {
	base   string
	http   *http.Client
	token  *tokens
	called func(api, result string, took time.Duration)

	mu      sync.Mutex
	blocked map[string]block // by API
}

// block is an API that is not called for a while.
type block struct {
	until   time.Time
	last    time.Duration
	limited bool // by a limit of WeCom; else by a mistake in the configuration, which a person has to correct
}

// apiError is an answer with a code.
type apiError struct {
	api  string
	code int
	text string
	row  errcode // its code is 0 if the table has none
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.api, e.code, e.text)
	if e.row.code != 0 {
		text += " (" + e.row.meaning + ")"
	}
	return text
}

// uncertainError is a call whose outcome is unknown: it may have taken effect.
type uncertainError struct {
	api string
	err error
}

func (e *uncertainError) Error() string { return e.api + ": " + e.err.Error() }
func (e *uncertainError) Unwrap() error { return e.err }

// blockedError is an API that is not to be called now.
type blockedError struct {
	api string
	in  time.Duration
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("%s: not called for another %v, because of what it answered last", e.api,
		e.in.Round(time.Second))
}

// notCalledError is a call that was not made: its API is blocked, or there was no access token.
type notCalledError struct{ err error }

func (e *notCalledError) Error() string { return e.err.Error() }
func (e *notCalledError) Unwrap() error { return e.err }

func newClient(base, corp, secret string, marks store.Shared, pipeline string,
	called func(api, result string, took time.Duration)) *client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 256,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}
	// WeCom redirects nothing. Who does would get the access token, in the Referer.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &client{
		base:   strings.TrimRight(base, "/"),
		http:   &http.Client{Transport: transport, Timeout: callTimeout, CheckRedirect: stay},
		called: called, blocked: map[string]block{},
	}
	c.token = &tokens{marks: marks, scope: pipeline + ".token", corp: corp, secret: secret, client: c}
	return c
}

// call posts in to an API and reads the answer into out. The access token is added.
func (c *client) call(ctx context.Context, api string, in, out any) error {
	return c.callWithin(ctx, api, api, in, out)
}

// callWithin is call under a limit of its own.
func (c *client) callWithin(ctx context.Context, limit, api string, in, out any) error {
	return c.do(ctx, limit, func(token string) error {
		body, err := json.Marshal(in)
		if err != nil {
			return err
		}
		return c.send(ctx, http.MethodPost, api, url.Values{"access_token": {token}}, body, out)
	})
}

// do makes a call that wants an access token.
func (c *client) do(ctx context.Context, api string, call func(token string) error) error {
	if in := c.blockedFor(api); in > 0 {
		return &notCalledError{&blockedError{api: api, in: in}}
	}
	token, err := c.token.get(ctx, "")
	if err != nil {
		return &notCalledError{err}
	}
	err = call(token)
	if e, ok := errors.AsType[*apiError](err); ok && e.row.action == refresh {
		if token, err = c.token.get(ctx, token); err != nil {
			return &notCalledError{err}
		}
		err = call(token)
	}
	c.note(api, err)
	return err
}

// note records whether a limit keeps an API closed.
func (c *client) note(api string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := errors.AsType[*apiError](err)
	switch {
	case ok && e.row.action == wait:
		b := c.blocked[api]
		if time.Now().Before(b.until) {
			return // another call was under way when it was closed
		}
		b.last = min(max(2*b.last, firstBlock), mostBlock)
		b.until, b.limited = time.Now().Add(b.last), true
		c.blocked[api] = b
	case ok && e.row.action == stop:
		c.blocked[api] = block{until: time.Now().Add(haltBlock)}
	case err == nil:
		delete(c.blocked, api)
	}
}

func (c *client) blockedFor(api string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, time.Until(c.blocked[api].until))
}

// limited says which APIs a limit keeps closed, for the health.
func (c *client) limited() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for api, b := range c.blocked {
		if in := time.Until(b.until); in > 0 && b.limited {
			all = append(all, fmt.Sprintf("%s is not called for another %v", api, in.Round(time.Second)))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "WeCom limits calls (45009): " + strings.Join(all, ", ")
}

// send makes one call. Its errors never hold the URL, because secrets are in it.
func (c *client) send(ctx context.Context, method, api string, query url.Values, body []byte, out any) error {
	began := time.Now()
	ctx, step := trace.Start(ctx, path.Base(api))
	text, err := c.exchange(ctx, method, api, query, body)
	if err == nil {
		err = c.read(api, text, out)
	}
	step.End(err)
	c.called(api, resultOf(err), time.Since(began))
	return err
}

func (c *client) exchange(ctx context.Context, method, api string, query url.Values, body []byte) ([]byte, error) {
	reply, err := c.open(ctx, method, api, query, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &uncertainError{api, errors.New("the answer broke off")}
	case len(text) > maxAnswer:
		return nil, &uncertainError{api, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)}
	}
	return text, nil
}

// open makes a request and returns an answer with status 200.
func (c *client) open(ctx context.Context, method, api string, query url.Values, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/cgi-bin/"+api+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("api_url cannot be read")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "pawl")
	reply, err := c.http.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, &uncertainError{api, tlscause.Explain(err, tlscause.Advice{})}
	}
	if reply.StatusCode != http.StatusOK {
		_ = reply.Body.Close()
		return nil, &uncertainError{api, errors.New("HTTP " + reply.Status)}
	}
	return reply, nil
}

// read makes an error of an answer that is one.
func (c *client) read(api string, text []byte, out any) error {
	var answer struct {
		Code *int   `json:"errcode"`
		Text string `json:"errmsg"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return &uncertainError{api, errors.New("the answer is not JSON")}
	}
	if answer.Code == nil {
		return &uncertainError{api, errors.New("the answer has no errcode")}
	}
	if *answer.Code != 0 {
		return &apiError{api: api, code: *answer.Code, text: answer.Text, row: rowOf(*answer.Code)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &uncertainError{api, fmt.Errorf("the answer is not as documented: %w", err)}
	}
	return nil
}

// resultOf is the result of a call, as the label of a metric.
func resultOf(err error) string {
	if e, ok := errors.AsType[*apiError](err); ok {
		if e.row.code == 0 {
			return "other"
		}
		return strconv.Itoa(e.code)
	}
	if err != nil {
		return "unreachable"
	}
	return "ok"
}
