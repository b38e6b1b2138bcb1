package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/forward/sim"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// The chats of tests.
const (
	source = sim.FirstChat
	target = sim.FirstChat - 1
	other  = sim.FirstChat - 2
)

// rig is a simulator, a store and as many processes as a test starts.
type rig struct {
	t     *testing.T
	api   *sim.Server
	url   string
	store store.Store
	keys  map[string]any
	n     int

	mu     sync.Mutex
	audits []string
}

func newRig(t *testing.T, keys map[string]any) *rig { return newRigOf(t, sim.Config{Seed: 1}, keys) }

func newRigOf(t *testing.T, c sim.Config, keys map[string]any) *rig {
	t.Helper()
	r := &rig{t: t, api: sim.New(c), store: memory.New(memory.Config{}), keys: keys}
	server := httptest.NewServer(r.api)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	r.url = server.URL
	return r
}

// section is the section of a pipeline with the defaults, and what the test says.
func (r *rig) section() pipeline.Section {
	l := map[string]any{"all": 30.0, "chat": 1.0, "group": 20.0 / 60, "mode": "off"}
	values := map[string]any{
		"token": "777:SECRET", "api_url": r.url, "updates": updatesPoll, "concurrency": int64(16), "reserved": int64(2),
		"ageing": 2 * time.Minute,
		"path":   "/telegram", "admins": []string{"1001"},
	}
	for k, v := range r.keys {
		if name, ok := strings.CutPrefix(k, "limits."); ok {
			l[name] = v
		} else {
			values[k] = v
		}
	}
	for _, f := range fields() {
		if f.Name == "limits" {
			values["limits"] = pipeline.NewSection(f.Fields, l)
		}
	}
	return pipeline.NewSection(fields(), values)
}

// process is one daemon.
type process struct {
	d    *dispatch.Dispatcher
	stop context.CancelFunc
	done chan struct{}
}

// start starts a process.
func (r *rig) start() *process {
	r.t.Helper()
	r.n++
	matrix, err := policy.NewMatrix(nil, policyRules()...)
	if err != nil {
		r.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	env := pipeline.Env{
		Name: "tg", Section: r.section(), Store: r.store, Logger: logger, Owner: fmt.Sprintf("process/%d", r.n),
		Policy: matrix,
		Audit: func(_ context.Context, who, action, subject, change string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.audits = append(r.audits, strings.Join([]string{who, action, subject, change}, " | "))
			return nil
		},
	}
	made, err := build(r.t.Context(), env)
	if err != nil {
		r.t.Fatal(err)
	}
	var topics []dispatch.Topic
	for _, st := range made.Stages {
		topics = append(topics, st.Topic)
	}
	d, err := dispatch.New(r.store, dispatch.Config{Topics: topics, Policy: matrix, Owner: env.Owner, Logger: logger})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	p := &process{d: d, stop: stop, done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Run(ctx) })
	wg.Go(func() { _ = made.Run(ctx) })
	go func() { wg.Wait(); close(p.done) }()
	r.t.Cleanup(func() { stop(); <-p.done })
	return p
}

func (r *rig) rules() *rules {
	state, _ := store.As[store.Shared](r.store)
	rs := newRules(state, "tg")
	if err := rs.refresh(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return rs
}

// rule adds a rule.
func (r *rig) rule(rule Rule) *Rule {
	r.t.Helper()
	if rule.Mode == "" {
		rule.Mode = modeForward
	}
	rule.Enabled = true
	made, err := r.rules().add(r.t.Context(), rule, "test")
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// await waits until something is so.
func (r *rig) await(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it never came to this: %s; sent: %+v", what, r.api.Truth(true))
		}
	}
}

// in are the texts that the bot put into a chat.
func (r *rig) in(chat int64) []string {
	var all []string
	for _, m := range r.api.Truth(true).Messages {
		if m.Chat == chat {
			all = append(all, m.Text)
		}
	}
	return all
}

// gets waits until a chat has exactly these texts from the bot.
func (r *rig) gets(chat int64, want ...string) {
	r.t.Helper()
	r.await(fmt.Sprintf("chat %d has %q", chat, want), func() bool { return len(r.in(chat)) >= len(want) })
	if got := r.in(chat); !slices.Equal(got, want) {
		r.t.Fatalf("chat %d got %q, want %q", chat, got, want)
	}
}
