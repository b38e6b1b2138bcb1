package crawl

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/retryafter"
	"github.com/pawl-dev/pawl/tlscause"
)

// The kinds of failure of a download, beside those of [Rules].
const (
	KindTransfer pawl.Kind = "Transfer" // no whole answer, or one of 5xx: tried five times
	KindStatus   pawl.Kind = "Status"   // an answer that is not a page
	KindTooLarge pawl.Kind = "TooLarge" // a body beyond max_bytes
	KindRedirect pawl.Kind = "Redirect" // too many of them, or one that leads nowhere
	KindPrivate  pawl.Kind = "Private"  // an address of a private network
)

// silence is how long a server may send nothing.
const silence = 10 * time.Second

// maxRedirects is how many redirects one request follows, those of the requests before it included.
const maxRedirects = 10

// answer is what a server said.
type answer struct {
	status   int
	header   http.Header
	location *url.URL // of a redirect
	body     []byte
	sha256   string
	etag     string
}

func (a *answer) setsCookies() bool { return a.header.Get("Set-Cookie") != "" }

// fetcher asks servers. It follows no redirects.
type fetcher struct {
	client   *http.Client
	cookies  *cookies
	cache    *cache
	proxies  *proxies
	agent    string
	headers  map[string]string
	own      []*url.URL // see sends
	timeout  time.Duration
	maxBytes int64

	allowPrivate bool
	lookup       func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// newFetcher makes a fetcher. own are URLs whose owners get all headers.
func newFetcher(o *Options, own ...*url.URL) *fetcher {
	dialer := &net.Dialer{Timeout: silence, KeepAlive: 30 * time.Second}
	if !o.AllowPrivate { // after the name was resolved, and for every redirect
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || private(at.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	// A proxy may have any address: what it is asked for is checked instead.
	toProxy := &net.Dialer{Timeout: silence / 2, KeepAlive: dialer.KeepAlive}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(via{}) != nil {
			return toProxy.DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
	jar := newCookies()
	return &fetcher{
		cookies: jar, proxies: newProxies(o.Proxies), allowPrivate: o.AllowPrivate,
		lookup: net.DefaultResolver.LookupNetIP,
		client: &http.Client{
			Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: proxyOf, OnProxyConnectResponse: refusedByProxy, DialContext: dial,
				TLSHandshakeTimeout: silence, ResponseHeaderTimeout: silence,
				MaxIdleConns: 1000, MaxIdleConnsPerHost: max(o.PerHost, 2), IdleConnTimeout: 30 * time.Second,
				MaxResponseHeaderBytes: 256 << 10,
				// get asks for more codings than the transport knows
				ForceAttemptHTTP2: true, DisableCompression: true,
			},
		},
		cache: &cache{}, agent: o.UserAgent, headers: o.Headers, own: own, timeout: o.Timeout, maxBytes: o.MaxBytes,
	}
}

// get fetches a URL, through a working proxy if there are proxies. Its errors state what the policy needs.
func (f *fetcher) get(ctx context.Context, u *url.URL) (*answer, error) {
	for {
		p, err := f.proxies.pick()
		if err != nil {
			return nil, err
		}
		if p == nil {
			at, err := http.ProxyFromEnvironment(&http.Request{URL: u})
			if err != nil {
				return nil, pawl.OfKind(KindProxy, errors.New("the environment names no proxy that can be read"))
			}
			return f.through(ctx, at, u)
		}
		a, err := f.through(ctx, p.at, u)
		if ctx.Err() != nil || !f.proxies.judge(p, err) {
			return a, err
		}
	}
}

// through asks for a URL through a proxy; nil: directly.
func (f *fetcher) through(ctx context.Context, proxy, u *url.URL) (_ *answer, err error) {
	ctx, step := trace.Start(ctx, "fetch", slog.String("server.address", u.Host))
	defer func() { step.End(err) }()
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, errSlow)
	defer cancel()
	if proxy != nil {
		if err := f.checkTarget(ctx, u); err != nil {
			return nil, err
		}
		ctx = context.WithValue(ctx, via{}, proxy)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	quiet := time.AfterFunc(silence, func() { stop(errSilent) })
	defer quiet.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, pawl.Permanent(pawl.OfKind(KindRequest, err))
	}
	req.Header.Set("User-Agent", f.agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	req.Header.Set("Accept-Encoding", codings)
	known := f.cache.get(u)
	if known != nil {
		known.condition(req)
	}
	for k, v := range f.headers {
		if f.sends(k, u) {
			req.Header.Set(k, v)
		}
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, f.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	quiet.Reset(silence)
	a := &answer{status: resp.StatusCode, header: resp.Header, etag: resp.Header.Get("ETag")}
	// Some servers state a Location with 304, too, where it leads nowhere.
	if to := resp.Header.Get("Location"); to != "" && a.status >= 300 && a.status < 400 &&
		a.status != http.StatusNotModified {
		if a.location, err = weburl.Parse(u, to); err != nil {
			return nil, pawl.Permanent(pawl.OfKind(KindRedirect,
				fmt.Errorf("HTTP %d leads nowhere: %w", a.status, err)))
		}
		return a, nil
	}
	if a.status == http.StatusNotModified && known != nil {
		f.cache.used(u)
		for name, values := range known.Header { // the answer tells what is new of them (RFC 9111, section 4.3.4)
			if resp.Header[name] == nil {
				resp.Header[name] = values
			}
		}
		return &answer{status: http.StatusOK, header: resp.Header, body: known.body, sha256: known.SHA256,
			etag: resp.Header.Get("Etag")}, nil
	}
	if a.status == http.StatusProxyAuthRequired && proxy != nil {
		return nil, errCredentials
	}
	if a.status < 200 || a.status > 299 {
		return nil, refused(resp)
	}
	if err := f.read(ctx, resp, a, quiet); err != nil {
		return nil, err
	}
	f.cache.put(u, a)
	return a, nil
}

// harmless are headers that no secret is in.
var harmless = regexp.MustCompile(`(?i)^(accept|accept-.*|cache-control|dnt|from|pragma|referer|sec-.*|user-agent)$`)

// sends reports whether a header of the options is sent to a URL. One that may be a secret is for the domains that the
// user named: a link, or a redirect of a page, a robots.txt or a sitemap, may lead anywhere.
func (f *fetcher) sends(name string, u *url.URL) bool {
	return harmless.MatchString(name) ||
		slices.ContainsFunc(f.own, func(own *url.URL) bool { return realm(own) == realm(u) })
}

var (
	errSlow   = errors.New("the answer took longer than --timeout")
	errSilent = fmt.Errorf("the server sent nothing for %v", silence)
)

// atMost is the key of how much of a body is read: a longer one is not too large then.
type atMost struct{}

// read reads a body, within its bound.
func (f *fetcher) read(ctx context.Context, resp *http.Response, a *answer, quiet *time.Timer) error {
	most, cut := ctx.Value(atMost{}).(int64)
	if !cut {
		most = f.maxBytes
	}
	if resp.ContentLength > most && !cut {
		return f.tooLarge()
	}
	in, free, err := plain(resp)
	defer free()
	if err != nil {
		return f.failed(ctx, err)
	}
	hash := sha256.New()
	buffer := make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			quiet.Reset(silence)
			switch rest := most - int64(len(a.body)); {
			case int64(n) <= rest:
			case cut:
				n, err = int(rest), io.EOF
			default:
				return f.tooLarge()
			}
			a.body = append(a.body, buffer[:n]...)
			_, _ = hash.Write(buffer[:n])
		}
		if err == io.EOF || errors.Is(err, gzip.ErrHeader) { // what follows a body in gzip is none of it
			a.sha256 = hex.EncodeToString(hash.Sum(nil))
			return nil
		}
		if err != nil {
			return f.failed(ctx, err)
		}
	}
}

func (f *fetcher) tooLarge() error {
	return pawl.Permanent(pawl.OfKind(KindTooLarge, fmt.Errorf("the body is larger than %d bytes", f.maxBytes)))
}

// failed is the error of a request that got no whole answer.
func (f *fetcher) failed(ctx context.Context, err error) error {
	if errors.Is(err, errPrivate) {
		return pawl.Permanent(pawl.OfKind(KindPrivate, errPrivate))
	}
	if err := proxyFailure(err); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause == errSlow || cause == errSilent {
		return policy.With(pawl.OfKind(KindTransfer, cause), policy.Timeout)
	}
	if url, ok := errors.AsType[*url.Error](err); ok {
		err = url.Err
	}
	facts := policy.Connect
	if errors.Is(err, io.ErrUnexpectedEOF) {
		facts = 0
	}
	err = tlscause.Explain(err, tlscause.Advice{Name: "only the owner of the site can change that",
		Plain: "its URLs begin with http://"})
	return policy.With(pawl.OfKind(KindTransfer, err), facts)
}

// statusError is an answer that is not a page.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d", e.status) }

// refused is the error of an answer that is not a page.
func refused(resp *http.Response) error {
	err := error(&statusError{resp.StatusCode})
	after, asked := retryafter.Of(resp.Header)
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && asked:
		return pawl.Throttled(pawl.OfKind(policy.KindRateLimit, err), after)
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return pawl.OfKind(KindTransfer, err)
	}
	return pawl.Permanent(pawl.OfKind(KindStatus, err))
}
