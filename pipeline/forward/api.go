package forward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/replybody"
	"github.com/pawl-dev/pawl/retryafter"
	"github.com/pawl-dev/pawl/tlscause"
)

const (
	callTimeout = 30 * time.Second // of a call that does not wait for updates
	maxAnswer   = 16 << 20
)

// client speaks the Bot API. Its errors never contain the token, which is a part of every URL.
type client struct {
	base  string // https://api.telegram.org
	token string
	http  *http.Client
}

func newClient(base, token string) *client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is documented to be one
	t.MaxIdleConnsPerHost = 64
	// Telegram redirects nothing. Who does would get the token, in the Referer.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{base: strings.TrimRight(base, "/"), token: token,
		http: &http.Client{Transport: t, CheckRedirect: stay}}
}

// apiError is an answer of the Bot API that says no.
type apiError struct {
	Method      string
	Code        int
	Description string
	RetryAfter  time.Duration
	MigrateTo   int64
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: Telegram answered %d %s", e.Method, e.Code, e.Description)
}

// foreignError is an answer that Telegram did not give, but what stands before it. It says nothing of the call.
type foreignError struct {
	method string
	status int
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s: HTTP %d %s, which is no answer of Telegram", e.method, e.status, http.StatusText(e.status))
}

// foreign is the error of an answer that is not one of Telegram. Who is too busy, or cannot reach Telegram, is heeded
// like Telegram itself.
func foreign(method string, resp *http.Response, err error) error {
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code >= 500:
		wait, _ := retryafter.Of(resp.Header)
		return &apiError{Method: method, Code: code, Description: http.StatusText(code), RetryAfter: wait}
	case code/100 == 2 && err != nil:
		return fmt.Errorf("%s: the answer is not JSON", method)
	}
	return &foreignError{method, resp.StatusCode}
}

// asAPI returns the answer of the Bot API in an error; nil if there was none.
func asAPI(err error) *apiError {
	e, _ := errors.AsType[*apiError](err)
	return e
}

// codeOf is the error code that the Bot API answered with; 0 if it did not.
func codeOf(err error) int {
	if e := asAPI(err); e != nil {
		return e.Code
	}
	return 0
}

// envelope is what every answer of the Bot API looks like.
type envelope struct {
	OK          *bool           `json:"ok"` // every answer of Telegram has it
	Result      json.RawMessage `json:"result"`
	ErrorCode   int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter json.RawMessage `json:"retry_after"` // a number, as far as one may expect
		MigrateTo  int64           `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// call calls a method and decodes its result into out, which may be nil.
func (c *client) call(ctx context.Context, timeout time.Duration, method string, params, out any) (err error) {
	ctx, step := trace.Start(ctx, method)
	defer func() { step.End(err) }()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/bot"+c.token+"/"+method,
		bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %s", method, c.mask(err.Error()))
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unanswered(method, err)
	}
	defer func() { _ = resp.Body.Close() }()
	defer replybody.Bound(ctx, resp)()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unanswered(method, err)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil || e.OK == nil {
		return foreign(method, resp, err)
	}
	if !*e.OK {
		wait, ok := retryafter.Of(http.Header{"Retry-After": {strings.Trim(string(e.Parameters.RetryAfter), `"`)}})
		if !ok {
			wait, _ = retryafter.Of(resp.Header)
		}
		return &apiError{Method: method, Code: cmp.Or(e.ErrorCode, resp.StatusCode), Description: c.mask(e.Description),
			RetryAfter: wait, MigrateTo: e.Parameters.MigrateTo}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(e.Result, out); err != nil {
		return fmt.Errorf("%s: the result is not what was expected: %w", method, err)
	}
	return nil
}

// unanswered describes a call without an answer. Its URL, which has the token, is left out.
func (c *client) unanswered(method string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if strings.Contains(err.Error(), c.token) {
		err = errors.New(c.mask(err.Error()))
	}
	return fmt.Errorf("%s: %w", method, tlscause.Explain(err, tlscause.Advice{}))
}

func (c *client) mask(s string) string { return strings.ReplaceAll(s, c.token, "[token]") }
