package wecom

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

const maxHandlerAnswer = 4 << 20

// webhook is a handler that posts the envelope to a web service. Its answer is the body of the reply.
type webhook struct {
	url     string
	user    *url.Userinfo
	key     []byte // nil: nothing is signed
	timeout time.Duration
	client  *http.Client
}

func newWebhook(text, key string, timeout time.Duration) (*webhook, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, errors.New("handler.http is no URL like http://127.0.0.1:8081/message")
	}
	w := &webhook{user: u.User, timeout: timeout, key: []byte(key)}
	u.User = nil
	w.url = u.String()
	w.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Answer implements [Handler].
func (w *webhook) Answer(ctx context.Context, d *pawl.Delivery) (Answer, error) {
	call, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(call, http.MethodPost, w.url, bytes.NewReader(d.Body))
	if err != nil {
		return Answer{}, pawl.Permanent(errors.New("handler.http cannot be called"))
	}
	w.describe(r, d)
	reply, err := w.client.Do(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(reply.Body, maxHandlerAnswer+1))
		_ = reply.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err != nil:
		return Answer{}, w.failed(call, err)
	case reply.StatusCode/100 != 2:
		return Answer{}, statusError(reply, text)
	case len(text) > maxHandlerAnswer:
		return Answer{}, pawl.Permanent(pawl.OfKind(KindHandler,
			fmt.Errorf("the handler's answer has more than %d MiB", maxHandlerAnswer>>20)))
	}
	a, err := readAnswer(text)
	if err != nil {
		return a, pawl.Permanent(pawl.OfKind(KindHandler, err))
	}
	return a, nil
}

// describe sets the headers of a request: those of every delivery over http, and the signature.
func (w *webhook) describe(r *http.Request, d *pawl.Delivery) {
	h := r.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "pawl")
	h.Set("Pawl-Topic", d.Topic)
	h.Set("Pawl-Attempt", strconv.Itoa(d.Attempt))
	h.Set("Pawl-Token", d.Token.String())
	h.Set("Pawl-Headers", ascii(d.Headers))
	for name, value := range map[string]string{"Pawl-Id": d.ID, "Idempotency-Key": d.ID, "Pawl-Key": string(d.Key)} {
		if printable(value) {
			h.Set(name, value)
		}
	}
	if t := d.Headers["traceparent"]; printable(t) && t != "" {
		h.Set("Traceparent", t)
	}
	if w.user != nil {
		password, _ := w.user.Password()
		r.SetBasicAuth(w.user.Username(), password)
	}
	if len(w.key) > 0 {
		h.Set("Pawl-Signature", sign(w.key, time.Now(), d.Body))
	}
}

// sign is the value of Pawl-Signature: with the key, a receiver can verify the origin and time of the request.
func sign(key []byte, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

func (w *webhook) failed(call context.Context, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL
	}
	facts := policy.Connect
	if call.Err() != nil {
		err, facts = fmt.Errorf("no answer within %v", w.timeout), policy.Timeout
	}
	return policy.With(pawl.OfKind(KindHandler, fmt.Errorf("the handler: %w", err)), facts)
}

// statusError reads a refusal: 4xx is for good, but for the codes that say otherwise.
func statusError(reply *http.Response, text []byte) error {
	reason := "the handler answered " + reply.Status
	if said := bytes.TrimSpace(text[:min(len(text), 500)]); utf8.Valid(said) && len(said) > 0 {
		reason += ": " + string(said)
	}
	err := pawl.OfKind(KindHandler, errors.New(reason))
	switch status := reply.StatusCode; {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		seconds, bad := strconv.Atoi(reply.Header.Get("Retry-After"))
		if bad != nil {
			seconds = 1
		}
		return pawl.Throttled(err, time.Duration(min(max(seconds, 1), 3600))*time.Second)
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status/100 != 4:
		return err
	default:
		return pawl.Permanent(err)
	}
}

// ascii is headers of a message as JSON that fits into a header of a request.
func ascii(headers map[string]string) string {
	text, _ := json.Marshal(headers) //nolint:errchkjson // texts
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
