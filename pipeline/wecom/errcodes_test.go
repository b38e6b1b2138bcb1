package wecom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/store"
)

// stub is a client of a service that answers every call with a code.
func stub(t *testing.T, code int) (*client, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	return clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = fmt.Fprintf(w, `{"errcode":%d,"errmsg":"said so"}`, code)
	}), &calls
}

// clientOf is a client of a service that gives tokens, and answers all other calls with answer.
func clientOf(t *testing.T, answer http.HandlerFunc) *client {
	t.Helper()
	var tokens atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gettoken") {
			_, _ = fmt.Fprintf(w, `{"errcode":0,"access_token":"token-%d","expires_in":7200}`, tokens.Add(1))
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	marks, _ := store.As[store.Shared](newRig(t).store, store.CanMarks)
	c := newClient(server.URL, "ww", "hush", marks, "kefu", func(string, string, time.Duration) {})
	return c
}

func TestEveryCodeHasItsAction(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range errcodes {
		t.Run(fmt.Sprint(row.code), func(t *testing.T) {
			t.Parallel()
			c, calls := stub(t, row.code)
			err := c.call(t.Context(), "kf/send_msg", map[string]string{}, nil)
			paused := false
			err = explain(t.Context(), err, func(context.Context, error) error {
				paused = true
				return pawl.Release(0, "paused")
			})
			about := pawl.Describe(err)
			_, released := errors.AsType[*pawl.ReleaseError](err)
			want := int32(1)
			switch row.action {
			case refresh:
				want = 2
			case stop:
				if !paused {
					t.Error("the pipeline is not paused")
				}
			case wait:
				if !released || c.limited() == "" {
					t.Errorf("it is not waited for: %v", err)
				}
			case slower:
				if about.Class != pawl.ClassThrottled {
					t.Errorf("class %v", about.Class)
				}
			case refuse, park:
				if about.Class != pawl.ClassPermanent || about.Kind != row.kind {
					t.Errorf("class %v, kind %v", about.Class, about.Kind)
				}
			case again, untoken:
				if about.Class != pawl.ClassTransient || about.Kind != row.kind {
					t.Errorf("class %v, kind %v", about.Class, about.Kind)
				}
			}
			if calls.Load() != want {
				t.Errorf("%d calls, want %d", calls.Load(), want)
			}
			if row.action == wait || row.action == stop {
				if err := c.call(t.Context(), "kf/send_msg", map[string]string{}, nil); err == nil ||
					calls.Load() != want {
					t.Error("it was called again at once")
				}
			}
		})
		if seen[row.code] || row.meaning == "" || row.class == "" || row.kind == "" {
			t.Errorf("the row %+v", row)
		}
		seen[row.code] = true
	}
}

// Many who want a token at once, in two processes, fetch one; and so do they when it ends early.
func TestTheTokenIsFetchedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	marks, _ := store.As[store.Shared](r.store, store.CanMarks)
	var all []*tokens
	for range 2 {
		c := newClient(r.api, sim.CorpID, sim.Secret, marks, "kefu", func(string, string, time.Duration) {})
		all = append(all, c.token)
	}
	ask := func(bad string) (token string) {
		t.Helper()
		var wg sync.WaitGroup
		got := make([]string, 40)
		for i := range got {
			wg.Go(func() { got[i], _ = all[i%2].get(t.Context(), bad) })
		}
		wg.Wait()
		for _, g := range got {
			if g == "" || g != got[0] || g == bad {
				t.Fatalf("got %q, and %q, in place of %q", got[0], g, bad)
			}
		}
		return got[0]
	}
	first := ask("")
	if n := r.sim.Counts()["gettoken 0"]; n != 1 {
		t.Errorf("fetched %d times", n)
	}
	if err := postJSON(r.api+"/control/token", "{}"); err != nil {
		t.Fatal(err)
	}
	if ask(first); r.sim.Counts()["gettoken 0"] != 2 {
		t.Errorf("after it ended: fetched %d times", r.sim.Counts()["gettoken 0"])
	}
}

func TestProgramsAnswer(t *testing.T) {
	t.Parallel()
	for key, command := range map[string]string{
		"exec": `grep -q hello && echo '{"replies":[{"msgtype":"text","text":{"content":"re: 0"}}]}'`,
		"pipe": `while read -r line; do echo "$line" | sed 's/.*"id":\("[^"]*"\).*"token":\("[^"]*"\).*/{"id":\1,"token":\2,"verdict":"ack","output":{"replies":[{"msgtype":"text","text":{"content":"re: 0"}}]}}/'; done`,
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.daemon("a", nil, map[string]any{"handler": sub("handler",
				map[string]any{key: command, "timeout": 10 * time.Second})})
			r.sim.Say(sim.Account, "wm0", "hello")
			r.await("it is answered", func() bool { return len(r.sim.Sent()) == 1 })
			r.exactly(1, 1)
		})
	}
}

func TestWebhookSigns(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	defer server.Close()
	w, err := newWebhook(server.URL, "key", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d := &pawl.Delivery{Message: pawl.Message{ID: "m", Topic: "t", Body: []byte("{}"),
		Headers: map[string]string{headerUser: "微信"}}}
	if a, err := w.Answer(t.Context(), d); err != nil || len(a.Replies) > 0 {
		t.Fatal(a, err)
	}
	h := <-seen
	if h.Get("Pawl-Headers") != `{"user_id":"\u5fae\u4fe1"}` || h.Get("Pawl-Id") != "m" ||
		!strings.HasPrefix(h.Get("Pawl-Signature"), "t=") {
		t.Errorf("%v", h)
	}
	if got := sign([]byte("key"), time.Unix(1, 0), []byte("{}")); len(got) != len("t=1,v1=")+64 {
		t.Errorf("signature %q", got)
	}
}

func TestWebhookFailures(t *testing.T) {
	t.Parallel()
	status, wait, body := 0, "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if wait != "" {
			w.Header().Set("Retry-After", wait)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	w, err := newWebhook(server.URL, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(code int, after, text string) pawl.Failure {
		status, wait, body = code, after, text
		_, err := w.Answer(t.Context(), &pawl.Delivery{Message: pawl.Message{ID: "m", Topic: "t"}})
		return pawl.Describe(err)
	}
	if f := ask(404, "", "no such page"); f.Class != pawl.ClassPermanent || f.Kind != KindHandler ||
		f.Err.Error() != "the handler: 404 Not Found: no such page" {
		t.Errorf("404: %+v", f)
	}
	if f := ask(500, "", ""); f.Class != pawl.ClassTransient || f.Kind != KindHandler {
		t.Errorf("500: %+v", f)
	}
	if f := ask(429, "7", ""); f.Class != pawl.ClassThrottled || f.After != 7*time.Second {
		t.Errorf("429: %+v", f)
	}
	if f := ask(200, "", "{"); f.Class != pawl.ClassPermanent || f.Kind != KindHandler {
		t.Errorf("an answer that is none: %+v", f)
	}
	if f := ask(200, "", strings.Repeat(" ", maxHandlerAnswer+1)); f.Class != pawl.ClassPermanent ||
		f.Kind != KindHandler {
		t.Errorf("an answer that is too long: %+v", f)
	}
}

// TestAnswersThatAreNotWeComs: an answer without an errcode, and a redirect, are of what stands before WeCom. They say
// nothing of the call, and the access token goes nowhere else.
func TestAnswersThatAreNotWeComs(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for, referred by %s", r.URL, r.Referer())
		_, _ = fmt.Fprint(w, `{"errcode":0}`)
	}))
	t.Cleanup(elsewhere.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"no errcode": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"message":"no route"}`) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		err := clientOf(t, answer).call(t.Context(), "kf/send_msg", map[string]string{}, nil)
		if !unanswered(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
