package project

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// earlyServer refuses a large body before it has read it, and resets the connection. Where it does not know
// expectations, it says so.
func earlyServer(t *testing.T, expects bool, requests *atomic.Int64) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for in := bufio.NewReader(conn); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			requests.Add(1)
			wants := req.Header.Get("Expect") != ""
			switch {
			case wants && !expects:
				_, _ = io.WriteString(conn, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
				continue
			case req.ContentLength > 2<<20:
				if wants { // else the answer is lost, as it may be wherever the body is under way
					_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
				}
				_ = conn.(*net.TCPConn).SetLinger(0)
				return
			case wants:
				_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			body, _ := io.ReadAll(req.Body)
			res, _ := written(string(body))
			res.ProtoMajor, res.ProtoMinor = 1, 1
			err = res.Write(conn)
			_ = res.Body.Close()
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "http://" + listener.Addr().String()
}

// A document that is refused before it was read is too large by its class, not a time-out: the answer was lost with the
// connection while the document was written.
func TestEarly413(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	p := fakeProjection(nil, io.Discard)
	p.search.base, p.search.client = earlyServer(t, true, &requests), &http.Client{Transport: http.DefaultTransport}
	items := []action{{index: "i", id: "a", version: 1, doc: []byte("{}")},
		{index: "i", id: "huge", version: 1, doc: bytes.Repeat([]byte("x"), 16<<20)},
		{index: "i", id: "b", version: 1, doc: []byte("{}")}}
	results, whole := p.send(t.Context(), items, 64<<20)
	if whole != nil || results[0].err != nil || results[2].err != nil {
		t.Errorf("the neighbours: %v, %v, %v", whole, results[0].err, results[2].err)
	}
	if f := pawl.Describe(results[1].err); f.Kind != kindSize || f.Class != pawl.ClassPermanent {
		t.Errorf("the large one: %v", results[1].err)
	}
	if n := requests.Load(); n > 6 {
		t.Errorf("%d requests", n)
	}
}

// A server that does not know what to do with an expectation gets the documents without it.
func TestExpectationFailed(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	p := fakeProjection(nil, io.Discard)
	p.search.base, p.search.client = earlyServer(t, false, &requests), &http.Client{Transport: http.DefaultTransport}
	item := action{index: "i", id: "large", version: 1, doc: []byte(strings.Repeat("x", 3<<19))}
	for range 2 {
		if results, whole := p.send(t.Context(), []action{item}, 64<<20); whole != nil || results[0].err != nil {
			t.Errorf("%v, %v", whole, results[0].err)
		}
	}
}

// The real index answers such a request at once.
func TestIndexKnowsExpectations(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	ctx, index, s := t.Context(), indexAfter(r.alias, ""), r.direct()
	s.client = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	r.ok(s.create(ctx, index, []byte("{}")))
	r.ok(s.point(ctx, r.alias, "", index))
	began := time.Now()
	results, err := s.request(ctx, []action{{index: r.alias, id: "large", version: 1,
		doc: []byte(`{"x":"` + strings.Repeat("x ", 1<<20) + `"}`)}}, true)
	if r.ok(err); results[0].err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", results[0].err, time.Since(began))
	}
}
