package trace

import (
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP collector over HTTP and gRPC that remembers what it got.
type collector struct {
	collect.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]*otlp.Span // by id
	auth  []string              // the values of a header
	about map[string]string     // of the resource
}

func newCollector(t *testing.T) (c *collector, overHTTP, overGRPC string) {
	c = &collector{spans: map[string]*otlp.Span{}, about: map[string]string{}}
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collect.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c, web.URL, "http://" + l.Addr().String()
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := &collect.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, req) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.take(req, r.Header.Get("X-Auth"))
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Export implements the service of OTLP over gRPC.
func (c *collector) Export(ctx context.Context, r *collect.ExportTraceServiceRequest) (
	*collect.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.take(r, strings.Join(md.Get("x-auth"), ""))
	return &collect.ExportTraceServiceResponse{}, nil
}

func (c *collector) take(r *collect.ExportTraceServiceRequest, auth string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.auth = append(c.auth, auth)
	for _, rs := range r.GetResourceSpans() {
		for _, kv := range rs.GetResource().GetAttributes() {
			c.about[kv.GetKey()] = kv.GetValue().GetStringValue()
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.spans[hex.EncodeToString(s.GetSpanId())] = s
			}
		}
	}
}

// byMessage are all spans, by message and name, in the order of their start.
func (c *collector) byMessage() map[string]map[string][]*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[string][]*otlp.Span{}
	for _, s := range c.spans {
		id := attr(s, "messaging.message.id")
		if all[id] == nil {
			all[id] = map[string][]*otlp.Span{}
		}
		all[id][s.GetName()] = append(all[id][s.GetName()], s)
	}
	for _, spans := range all {
		for _, named := range spans {
			slices.SortFunc(named, func(a, b *otlp.Span) int {
				return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano())
			})
		}
	}
	return all
}

// of are the spans of a message, by name.
func (c *collector) of(message string) map[string][]*otlp.Span { return c.byMessage()[message] }

func (c *collector) named(name string) (all []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			all = append(all, s)
		}
	}
	return all
}

// links reports whether one span links to another.
func links(from, to *otlp.Span) bool {
	return slices.ContainsFunc(from.GetLinks(), func(l *otlp.Span_Link) bool {
		return string(l.GetSpanId()) == string(to.GetSpanId()) && string(l.GetTraceId()) == string(to.GetTraceId())
	})
}

func below(child, parent *otlp.Span) bool {
	return string(child.GetParentSpanId()) == string(parent.GetSpanId()) &&
		string(child.GetTraceId()) == string(parent.GetTraceId())
}

func attr(s *otlp.Span, key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

func number(s *otlp.Span, key string) int64 {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return kv.GetValue().GetIntValue()
		}
	}
	return 0
}

func events(s *otlp.Span) (names []string) {
	for _, e := range s.GetEvents() {
		names = append(names, e.GetName())
	}
	return names
}
