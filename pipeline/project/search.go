package project

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/replybody"
	"github.com/pawl-dev/pawl/retryafter"
	"github.com/pawl-dev/pawl/tlscause"
)

// search is a client of OpenSearch or Elasticsearch. The few calls needed are the same in both.
type search struct {
	base, user, password, key string
	client                    *http.Client
}

const (
	searchTimeout = 30 * time.Second
	maxAnswer     = 256 << 20
)

func newSearch(sink pipeline.Section) (*search, error) {
	s := &search{
		base: strings.TrimRight(sink.Text("url"), "/"), user: sink.Text("username"), password: sink.Text("password"),
		key: sink.Text("api_key"),
	}
	if u, err := url.Parse(s.base); err == nil && u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		u.User = nil
		s.base = u.String()
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if file := sink.Text("ca_file"); file != "" {
		roots, err := authority(file)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	s.client = &http.Client{Transport: t, Timeout: searchTimeout, CheckRedirect: sameMethod}
	return s, nil
}

// sameMethod follows redirects but those that make a GET of a change: its success is not that of the change.
func sameMethod(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != via[0].Method:
		return http.ErrUseLastResponse
	case len(via) >= 10:
		return errors.New("more than 10 redirects")
	}
	return nil
}

// authority reads certificates.
func authority(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}

// answerError is an answer that is no success.
type answerError struct {
	status  int
	kind    string // error.type
	reason  string
	after   time.Duration // Retry-After
	request string
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("HTTP %d", e.status)
	if e.kind != "" {
		text += " [" + e.kind + "]"
	}
	if e.request != "" { // before the reason, which may be cut
		text += " (request " + e.request + ")"
	}
	if e.reason != "" {
		text += " " + e.reason
	}
	return text
}

// missing tells that what was asked for is not there.
func missing(err error) bool {
	a, ok := errors.AsType[*answerError](err)
	return ok && a.status == http.StatusNotFound
}

// call sends a request and decodes the answer into into, if that is not nil.
func (s *search) call(ctx context.Context, method, path string, body []byte, into any) error {
	return s.callAs(ctx, pawl.NewID(), false, method, path, body, into)
}

// callAs is call with the id of the request. With expect, the body is sent when the server wants it.
func (s *search) callAs(ctx context.Context, id string, expect bool, method, path string, body []byte,
	into any) error {
	kind := "application/json"
	if strings.HasSuffix(path, "_bulk") {
		kind = "application/x-ndjson"
	}
	if s.client.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.client.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Opaque-Id", id)
	if expect {
		req.Header.Set("Expect", "100-continue")
		req.Close = true // else the body is sent after a refusal, too
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", kind)
	}
	switch {
	case s.key != "":
		req.Header.Set("Authorization", "ApiKey "+s.key)
	case s.user != "":
		req.SetBasicAuth(s.user, s.password)
	}
	res, err := s.client.Do(req)
	if err != nil {
		err = tlscause.Explain(err, tlscause.Advice{Authority: "name its file in ca_file of the sink",
			Name: "use a name that it states in url of the sink"})
		return fmt.Errorf("%w (request %s)", err, id)
	}
	defer func() { _ = res.Body.Close() }()
	defer replybody.Bound(ctx, res)()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		err = cmp.Or(ctx.Err(), err)
		return fmt.Errorf("read the answer: %w (request %s)", err, id)
	}
	if expect && res.StatusCode == http.StatusExpectationFailed {
		return s.callAs(ctx, id, false, method, path, body, into)
	}
	if res.StatusCode/100 != 2 {
		return refusal(res, text, id)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return odd("%s (request %s)", unread(text, err), id)
	}
	return nil
}

// errOdd is wrapped by errors of an answer of success that does not say what it has to.
var errOdd = errors.New("the answer cannot be used")

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errOdd}, args...)...)
}

// unread says what is wrong with an answer that is not the JSON that was expected.
func unread(text []byte, err error) string {
	if len(text) == 0 {
		return "it is empty"
	}
	why := err.Error()
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		why = cmp.Or(t.Field, "it") + " is a JSON " + t.Value
	}
	return fmt.Sprintf("%s; it begins with %.60q", why, text)
}

func refusal(res *http.Response, text []byte, id string) error {
	e := &answerError{status: res.StatusCode, request: id}
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &doc) == nil {
		e.kind, e.reason = cause(doc.Error)
	}
	if to, err := res.Location(); err == nil {
		e.reason = fmt.Sprintf("a redirect to %s: is url of the sink right?", to.Host)
	}
	if e.kind == "" && e.reason == "" && len(text) > 0 { // of what stands before the index
		e.reason = fmt.Sprintf("%.120q", bytes.TrimSpace(text))
	}
	e.after, _ = retryafter.Of(res.Header)
	return e
}

// cause reads an error object, whose deepest cause is the most specific.
func cause(raw json.RawMessage) (kind, reason string) {
	var e struct {
		Type     string          `json:"type"`
		Reason   string          `json:"reason"`
		CausedBy json.RawMessage `json:"caused_by"`
	}
	if json.Unmarshal(raw, &e) != nil {
		_ = json.Unmarshal(raw, &e.Reason)
		return "", e.Reason
	}
	if len(e.CausedBy) > 0 {
		if _, deeper := cause(e.CausedBy); deeper != "" {
			e.Reason += ": " + deeper
		}
	}
	return e.Type, e.Reason
}

// behind returns the indices behind an alias; none if there is no such alias.
func (s *search) behind(ctx context.Context, alias string) ([]string, error) {
	var found map[string]json.RawMessage
	err := s.call(ctx, http.MethodGet, "/_alias/"+url.PathEscape(alias), nil, &found)
	if missing(err) {
		return nil, nil
	}
	return slices.Collect(maps.Keys(found)), err
}

// named returns the indices whose name has the form of those of an alias.
func (s *search) named(ctx context.Context, alias string) ([]string, error) {
	var found map[string]json.RawMessage
	err := s.call(ctx, http.MethodGet, "/"+url.PathEscape(alias)+"-*/_settings/index.uuid?expand_wildcards=all", nil,
		&found)
	var names []string
	for name := range found {
		if _, err := strconv.Atoi(strings.TrimPrefix(name, alias+"-")); err == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// create makes an index. One that is there already is no error.
func (s *search) create(ctx context.Context, index string, body []byte) error {
	err := s.call(ctx, http.MethodPut, "/"+url.PathEscape(index), body, nil)
	if a, ok := errors.AsType[*answerError](err); ok && a.kind == "resource_already_exists_exception" {
		return nil
	}
	return err
}

func (s *search) remove(ctx context.Context, index string) error {
	err := s.call(ctx, http.MethodDelete, "/"+url.PathEscape(index), nil, nil)
	if missing(err) {
		return nil
	}
	return err
}

// point lets an alias point to one index, and no longer to another, in one step.
func (s *search) point(ctx context.Context, alias, from, to string) error {
	type action map[string]map[string]any
	actions := []action{}
	if from != "" {
		actions = append(actions, action{"remove": {"index": from, "alias": alias}})
	}
	actions = append(actions, action{"add": {"index": to, "alias": alias, "is_write_index": true}})
	body, err := json.Marshal(map[string]any{"actions": actions})
	if err != nil {
		return err
	}
	return s.call(ctx, http.MethodPost, "/_aliases", body, nil)
}

func (s *search) refresh(ctx context.Context, index string) error {
	return s.call(ctx, http.MethodPost, "/"+url.PathEscape(index)+"/_refresh", nil, nil)
}

// document is one of an index.
type document struct {
	ID      string          `json:"_id"`
	Found   bool            `json:"found"`
	Version int64           `json:"_version"`
	Source  json.RawMessage `json:"_source"`
	Error   json.RawMessage `json:"error"`
}

// get returns documents by id, in that order.
func (s *search) get(ctx context.Context, index string, ids []string) ([]document, error) {
	body, err := json.Marshal(map[string]any{"ids": ids})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Docs []document `json:"docs"`
	}
	err = s.call(ctx, http.MethodPost, "/"+url.PathEscape(index)+"/_mget", body, &answer)
	if err == nil && len(answer.Docs) != len(ids) {
		err = odd("it has %d documents for %d", len(answer.Docs), len(ids))
	}
	for i := range answer.Docs {
		switch d := &answer.Docs[i]; {
		case err != nil:
		case len(d.Error) > 0:
			kind, reason := cause(d.Error)
			err = fmt.Errorf("document %q cannot be read: [%s] %s", ids[i], kind, reason)
		case d.ID != ids[i] && utf8.ValidString(ids[i]): // one that is not UTF-8 is asked for as another
			err = odd("item %d is not about document %q", i, ids[i])
		}
	}
	return answer.Docs, err
}

// hits is a page of the documents of an index.
type hits struct {
	Scroll string `json:"_scroll_id"`
	Late   bool   `json:"timed_out"`
	Shards struct {
		Failed   int `json:"failed"`
		Failures []struct {
			Reason json.RawMessage `json:"reason"`
		} `json:"failures"`
	} `json:"_shards"`
	Hits struct {
		Hits []document `json:"hits"`
	} `json:"hits"`
}

// partial says why the page may not have all that it should.
func (h *hits) partial() error {
	switch {
	case h.Late:
		return errors.New("the search timed out")
	case h.Shards.Failed == 0:
		return nil
	}
	kind, reason := "unknown", ""
	if len(h.Shards.Failures) > 0 {
		kind, reason = cause(h.Shards.Failures[0].Reason)
	}
	return fmt.Errorf("the index cannot be read: %d of its shards failed: [%s] %s", h.Shards.Failed, kind, reason)
}

// scroll yields the ids of all documents of an index, in pages.
func (s *search) scroll(ctx context.Context, index string, each func(ids []string) error) error {
	const page = 1000
	var h hits
	body := fmt.Appendf(nil, `{"size":%d,"_source":false,"sort":["_doc"]}`, page)
	err := s.call(ctx, http.MethodPost, "/"+url.PathEscape(index)+"/_search?scroll=2m", body, &h)
	for err == nil {
		if err = h.partial(); err != nil || len(h.Hits.Hits) == 0 {
			break
		}
		ids := make([]string, len(h.Hits.Hits))
		for i := range ids {
			ids[i] = h.Hits.Hits[i].ID
		}
		if err = each(ids); err != nil {
			break
		}
		next := fmt.Appendf(nil, `{"scroll":"2m","scroll_id":%q}`, h.Scroll)
		h.Hits.Hits, h.Shards.Failures = nil, nil
		err = s.call(ctx, http.MethodPost, "/_search/scroll", next, &h)
	}
	if h.Scroll != "" {
		// it ends by itself, too
		_ = s.call(context.WithoutCancel(ctx), http.MethodDelete, "/_search/scroll",
			fmt.Appendf(nil, `{"scroll_id":%q}`, h.Scroll), nil)
	}
	return err
}
