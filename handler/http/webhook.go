package http

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/replybody"
	"github.com/pawl-dev/pawl/tlscause"
)

// Config says where deliveries go. URL is required.
type Config struct {
	URL     string            // where deliveries are posted
	Method  string            // empty is POST
	Headers map[string]string // beside those of the delivery
	// Timeout bounds a request and its reply; 0 leaves that to the deadline.
	Timeout time.Duration
	// Request, if not nil, changes a request before it is sent: it may sign it.
	Request func(r *http.Request, d *pawl.Delivery)
	// Output, if not nil, gets the body of a reply with a status of 2xx, before Handle returns. No such reply states a
	// verdict then.
	Output func(d *pawl.Delivery, body []byte)
	// Logger logs what is odd about verdicts; nil is slog.Default.
	Logger *slog.Logger
}

// Limits of a reply.
const (
	maxReason  = 2 << 10  // becomes the reason of a failure
	maxVerdict = 32 << 20 // of a verdict: the largest body it may emit has room, however it is encoded
	maxOutput  = 4 << 20  // of an Output
	maxDrained = 64 << 10 // is read so that the connection can be used again
)

// ContentVerdict is the type of a reply that states a verdict, in the words of
// package wire: beside ack it can emit and hold.
const ContentVerdict = "application/vnd.pawl.verdict+json"

// maxPatience is how long the rest of a reply is waited for at most whose status is the verdict.
const maxPatience = 2 * time.Second

const dialTimeout = 10 * time.Second

// expectFor is how long a service may take to say that it wants a body, where it is asked; then it gets it.
const expectFor = time.Second

// maxIdle is far more than there are requests at once: each keeps its connection.
const maxIdle = 10_000

// Hook is a handler that posts. It is safe for concurrent use.
type Hook struct {
	config Config
	url    *url.URL
	fixed  http.Header
	client *http.Client

	unknown atomic.Bool // a member of a verdict was unknown, and that was logged
}

// New returns the handler.
func New(c Config) (*Hook, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be read") // err quotes it, with the password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the URL must begin with http:// or https:// and have a host")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	if _, err := http.NewRequest(c.Method, "/", nil); err != nil {
		return nil, fmt.Errorf("the method %.40q is not valid", c.Method)
	}
	h := &Hook{config: c, url: u, fixed: http.Header{"User-Agent": {"pawl"}}}
	for name, value := range c.Headers {
		h.fixed.Set(name, value)
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	h.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: dialTimeout, ExpectContinueTimeout: expectFor,
			MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h, nil
}

// Close closes the connections that are kept.
func (h *Hook) Close() { h.client.CloseIdleConnections() }

// Handle posts d and waits for the reply.
func (h *Hook) Handle(ctx context.Context, d *pawl.Delivery) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	if h.config.Timeout > 0 {
		var ended context.CancelFunc
		bound, ended = context.WithTimeout(bound, h.config.Timeout)
		defer ended()
	}
	reply, err := h.post(bound, d)
	if err != nil {
		return h.failed(ctx, bound, err)
	}
	defer func() { _ = reply.Body.Close() }()
	defer replybody.Bound(bound, reply)()
	if reply.StatusCode/100 == 2 && h.config.Output != nil {
		return h.output(ctx, bound, d, reply)
	}
	if reply.StatusCode/100 == 2 && isVerdict(reply.Header) {
		return h.worded(ctx, bound, d, reply)
	}
	defer time.AfterFunc(patience(bound), cancel).Stop()
	said, err := io.ReadAll(io.LimitReader(reply.Body, maxReason))
	if err == nil {
		_, _ = io.CopyN(io.Discard, reply.Body, maxDrained)
	}
	return verdict(reply, said)
}

// post sends a request. Where the connection breaks while the body is written, the service may have refused it unread,
// and the refusal is lost: it is asked again, and gets the body if it wants it.
func (h *Hook) post(bound context.Context, d *pawl.Delivery) (*http.Response, error) {
	reply, err := h.client.Do(h.request(bound, d))
	if !brokeOff(err) || bound.Err() != nil {
		return reply, err
	}
	r := h.request(bound, d)
	r.Header.Set("Expect", "100-continue")
	r.Close = true // else the body is sent after a refusal, too
	if reply, err = h.client.Do(r); err == nil && reply.StatusCode == http.StatusExpectationFailed {
		_ = reply.Body.Close()
		return nil, errors.New("the connection broke while the body was written, and the service knows no expectations")
	}
	return reply, err
}

// brokeOff reports whether a connection broke while a request was written. By then package http may have closed it.
func brokeOff(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "write" || op.Op == "readfrom")
}

// patience is how long the rest of a reply is waited for whose status is the verdict, so that it comes in time.
func patience(bound context.Context) time.Duration {
	ends, ok := bound.Deadline()
	if !ok {
		return maxPatience
	}
	return min(time.Until(ends)/2, maxPatience)
}

// output passes the body of a reply on.
func (h *Hook) output(ctx, bound context.Context, d *pawl.Delivery, reply *http.Response) error {
	text, fits, err := readUpTo(maxOutput, reply)
	switch {
	case err != nil:
		return h.failed(ctx, bound, err)
	case !fits:
		return pawl.Permanent(pawl.OfKind(policy.KindService, fmt.Errorf("the reply has more than %d MiB", maxOutput>>20)))
	}
	h.config.Output(d, text)
	return nil
}

// readUpTo reads a reply if it has that many bytes at most.
func readUpTo(most int64, reply *http.Response) (text []byte, fits bool, err error) {
	if reply.ContentLength > most {
		return nil, false, nil
	}
	text, err = io.ReadAll(io.LimitReader(reply.Body, most+1))
	return text, int64(len(text)) <= most, err
}

// worded reads the verdict that a reply states.
func (h *Hook) worded(ctx, bound context.Context, d *pawl.Delivery, reply *http.Response) error {
	text, fits, err := readUpTo(maxVerdict, reply)
	if err != nil {
		return h.failed(ctx, bound, err)
	}
	if !fits {
		return noVerdict(fmt.Errorf("it has more than %d MiB", maxVerdict>>20))
	}
	v, err := wire.ParseReply(text)
	if err != nil {
		return noVerdict(err)
	}
	if v.Unknown != "" && h.unknown.CompareAndSwap(false, true) {
		h.config.Logger.Warn("a verdict has a member that is unknown; it is left out", "member", v.Unknown,
			"id", d.ID, "next", "correct it; a verdict has: "+wire.Members)
	}
	return v.Settle(d, policy.KindService)
}

func noVerdict(why error) error {
	return pawl.OfKind(policy.KindService, fmt.Errorf("the reply is not a verdict: %w", why))
}

// isVerdict reports whether a reply says that it states a verdict, whatever parameters and other types stand beside it:
// one that is overlooked is an ack.
func isVerdict(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Content-Type"), func(value string) bool {
		media, _, _ := strings.Cut(value, ";")
		return strings.EqualFold(strings.TrimSpace(media), ContentVerdict)
	})
}

func (h *Hook) request(ctx context.Context, d *pawl.Delivery) *http.Request {
	header := h.fixed.Clone()
	deadline, _ := ctx.Deadline()
	describe(header, d, deadline, policy.LastAttempt(ctx, policy.KindService))
	r := &http.Request{
		Method: h.config.Method, URL: h.url, Host: h.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, ContentLength: int64(len(d.Body)),
	}
	if u := h.url.User; u != nil && header.Get("Authorization") == "" {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	if len(d.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(d.Body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(d.Body)), nil }
	}
	if h.config.Request != nil {
		h.config.Request(r, d)
	}
	return r.WithContext(ctx)
}

// failed says why there was no reply to a request, whose context is bound.
func (h *Hook) failed(ctx, bound context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL: it may hold what is secret
	}
	if handler.Lacks(err) || errors.Is(err, syscall.ENOBUFS) {
		return pawl.Release(leastPause, err.Error())
	}
	facts := policy.Facts(0)
	if bound.Err() != nil { // a connection that is not made in time has an error like that of a context
		err, facts = fmt.Errorf("no reply within %v", h.config.Timeout), policy.Timeout
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		facts = policy.Connect
	}
	return policy.With(pawl.OfKind(policy.KindService, tlscause.Explain(err, tlscause.Advice{})), facts)
}
