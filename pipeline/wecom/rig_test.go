package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// rig is a simulator and a store, and the daemons that run the pipeline over it.
type rig struct {
	t        testing.TB
	sim      *sim.Server
	api      string
	store    store.Store
	messages string // URL; empty: the same store
	listen   string
}

func newRig(t testing.TB) *rig {
	t.Helper()
	s, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() { s.Wait(); server.Close() })
	st, err := open.Open(t.Context(), open.Config{URL: "sqlite:" + t.TempDir() + "/pawl.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, sim: s, api: server.URL, store: st, listen: l.Addr().String()}
	_ = l.Close()
	s.SetCallback("http://" + r.listen + "/wecom/callback")
	return r
}

func section(values map[string]any) pipeline.Section {
	return pipeline.NewSection(fields(), values)
}

func sub(name string, values map[string]any) pipeline.Section {
	for _, f := range fields() {
		if f.Name == name {
			return pipeline.NewSection(f.Fields, values)
		}
	}
	panic(name)
}

func (r *rig) section(change map[string]any) pipeline.Section {
	values := map[string]any{
		"corp_id": sim.CorpID, "secret": sim.Secret, "token": sim.Token, "encoding_aes_key": sim.AESKey,
		"api_url": r.api, "listen": r.listen,
		"path": "/wecom/callback", "timestamp_window": 10 * time.Minute, "reconcile": time.Second,
		"concurrency": int64(16),
		"messages": sub("messages", map[string]any{
			"store": r.messages, "topic": defaultTopic, "dead_letter_topic": defaultDead, "group": defaultGroup,
			"profile": development,
		}),
		"handler": sub("handler", map[string]any{"timeout": 10 * time.Second}),
	}
	maps.Copy(values, change)
	return section(values)
}

// daemon runs the pipeline until it is ended. kill ends it as the end of its process would.
func (r *rig) daemon(owner string, h Handler, change map[string]any) (end, kill func()) {
	t := r.t
	t.Helper()
	matrix, err := policy.NewMatrix(nil, rules()...)
	if err != nil {
		t.Fatal(err)
	}
	var opened []store.Store
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	p, err := KindWith(h).New(ctx, pipeline.Env{
		Name: "kefu", Section: r.section(change), Store: r.store, Logger: log, Owner: owner, Policy: matrix,
		Redact: func(s string) string {
			return s
		},
		Open: func(ctx context.Context, url string) (store.Store, error) {
			s, err := open.Open(ctx, open.Config{URL: url})
			opened = append(opened, s)
			return s, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	topics := map[store.Store][]dispatch.Topic{}
	for _, st := range p.Stages {
		s := st.Store
		if s == nil {
			s = r.store
		}
		topics[s] = append(topics[s], st.Topic)
	}
	var wg sync.WaitGroup
	var all []*dispatch.Dispatcher
	for s, ts := range topics {
		d, err := dispatch.New(s, dispatch.Config{Topics: ts, Policy: matrix, Owner: owner, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
		wg.Go(func() { _ = d.Run(ctx) })
	}
	wg.Go(func() { _ = p.Run(ctx) })
	var once sync.Once
	stop := func(how func()) func() {
		return func() {
			once.Do(func() {
				how()
				cancel()
				wg.Wait()
				p.Drained()
				for _, s := range opened {
					_ = s.Close()
				}
			})
		}
	}
	end, kill = stop(func() {}), stop(func() {
		for _, d := range all {
			d.Kill()
		}
	})
	t.Cleanup(end)
	r.await("the callback listens", func() bool { return r.sim.Check() == nil })
	return end, kill
}

func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within a minute; answers %v, %d sent; left: %v", what, r.sim.Counts(),
				len(r.sim.Sent()), r.left())
		}
	}
}

// left are the messages that are not done.
func (r *rig) left() (all []string) {
	tell := func(rec *store.Record) {
		line := fmt.Sprintf("%s %s of key %s, %d attempts, due %s: %s", rec.State, rec.ID, rec.Key, rec.Attempts,
			rec.NotBefore.Format(time.TimeOnly), rec.Reason)
		if n := len(rec.History); n > 0 {
			line += ": " + rec.History[n-1].Error
		}
		all = append(all, rec.Topic+": "+line)
	}
	if looker, ok := store.As[store.Inspector](r.store); ok {
		for rec := range looker.List(r.t.Context(), store.Filter{}) {
			tell(&rec)
		}
	}
	if letters, ok := store.As[store.DeadLetters](r.store); ok {
		for rec := range letters.Dead(r.t.Context(), store.DeadFilter{}) {
			tell(&rec)
		}
	}
	return all
}

// echo answers every text with itself.
func echo(asked func(Envelope)) Handler {
	return HandlerFunc(func(_ context.Context, e Envelope) (Answer, error) {
		if asked != nil {
			asked(e)
		}
		var c struct {
			Text struct {
				Content string `json:"content"`
			} `json:"text"`
		}
		if json.Unmarshal(e.Content, &c) != nil || c.Text.Content == "" {
			return Answer{}, nil
		}
		return Answer{Replies: []json.RawMessage{textReply("re: " + c.Text.Content)}}, nil
	})
}

func textReply(content string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"msgtype": "text", "text": map[string]string{"content": content}})
	return b
}

// answered returns the texts that were sent, by user, in order.
func (r *rig) answered() map[string][]string {
	all := map[string][]string{}
	for _, m := range r.sim.Sent() {
		var body struct {
			Text struct {
				Content string `json:"content"`
			} `json:"text"`
		}
		_ = json.Unmarshal(m.Body, &body)
		all[m.User] = append(all[m.User], body.Text.Content)
	}
	return all
}

// exactly checks that every user got every reply once, in order.
func (r *rig) exactly(users, messages int) {
	r.t.Helper()
	all := r.answered()
	for u := range users {
		got := all[fmt.Sprintf("wm%d", u)]
		if len(got) != messages {
			r.t.Errorf("user %d got %d replies: %q", u, len(got), got)
			continue
		}
		for n, text := range got {
			if want := fmt.Sprintf("re: %d", n); text != want {
				r.t.Errorf("reply %d of user %d is %q", n, u, text)
			}
		}
	}
}

// talk has every user write so often, five messages at a time: more must not be answered.
func (r *rig) talk(users, messages int) {
	r.t.Helper()
	for n := range messages {
		for u := range users {
			r.sim.Say(sim.Account, fmt.Sprintf("wm%d", u), fmt.Sprint(n))
		}
		if (n+1)%budget == 0 {
			r.await("all are answered", func() bool { return len(r.sim.Sent()) >= users*(n+1) })
		}
	}
	r.await("all are answered", func() bool { return len(r.sim.Sent()) >= users*messages })
}

func postJSON(url, body string) error {
	reply, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return errors.New(reply.Status)
	}
	return nil
}

// paused says why the pipeline is paused; empty: it is not.
func (r *rig) paused() string { return r.site().paused(r.t.Context()) }

// resumed ends a pause, as `pawl pipelines resume` does, until done: a call that was under way when the configuration
// was mended pauses the pipeline once more.
func (r *rig) resumed(what string, done func() bool) {
	r.t.Helper()
	topics, _ := store.As[store.Topics](r.store)
	r.await(what, func() bool {
		for _, name := range []string{"kefu.pull", "kefu.replies", defaultTopic} {
			stats, err := topics.Stats(r.t.Context(), name)
			if err == nil && len(stats) > 0 && stats[0].Paused != nil {
				err = topics.Resume(r.t.Context(), name)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
		return done()
	})
}
