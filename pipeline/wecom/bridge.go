package wecom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// The stages on the daemon's store.
const (
	stagePull    = "pull"
	stageReplies = "replies"
)

const (
	pullSlots = 32
	// lease is short, so that the work of a process that was killed goes on soon.
	lease       = 10 * time.Second
	pullLongest = time.Hour
)

func escape(s string) string { return url.QueryEscape(s) }

// bridge is a pipeline that runs.
type bridge struct {
	env      pipeline.Env
	section  pipeline.Section
	client   *client
	accounts *accounts
	ledger   *ledger
	handled  *handled
	callback *callback
	bells    *bells
	messages store.Store // nil: the daemon's
	figures  *figures
	close    []func()

	mu       sync.Mutex
	deaf     string // why the callback does not listen; empty: it does
	halted   string // why the pipeline was paused
	storing  string // why messages cannot be stored
	storedAt time.Time
	last     time.Time // success
}

func buildWith(h Handler) func(context.Context, pipeline.Env) (*pipeline.Pipeline, error) {
	return func(ctx context.Context, env pipeline.Env) (*pipeline.Pipeline, error) {
		b := &bridge{env: env, section: env.Section, figures: newFigures(env.Name)}
		marks, ok := store.As[store.Shared](env.Store, store.CanMarks)
		if !ok {
			return nil,
				errors.New(
					"the daemon's store keeps no marks, which cursors and the ledger are: use sqlite or postgres")
		}
		s := env.Section
		sealed, err := newSeal(s.Text("token"), s.Text("encoding_aes_key"), s.Text("corp_id"))
		if err != nil {
			return nil, err
		}
		b.client = newClient(s.Text("api_url"), s.Text("corp_id"), s.Text("secret"), marks, env.Name, b.called)
		b.accounts = accountsOf(marks, env.Name)
		b.ledger = newLedger(marks, env.Name)
		b.handled = newHandled(marks, env.Name+".handled", env.Logger)
		b.bells = newBells(env.Store, env.Topic(stagePull), env.Logger)
		b.callback = &callback{
			seal: sealed, window: s.Duration("timestamp_window"), ring: b.bells.ring, seen: b.figures.callback,
		}
		if s.Section("messages").Text("store") != "" {
			if b.messages, err = env.Open(ctx, messagesURL(s.Section("messages"))); err != nil {
				return nil, fmt.Errorf("open the store of the messages: %w", err)
			}
		}
		if h == nil {
			if h, err = b.handler(); err != nil {
				return nil, err
			}
		}
		return b.pipeline(h)
	}
}

// handler is the one that the section names.
func (b *bridge) handler() (Handler, error) {
	s := b.section.Section("handler")
	if u := s.Text("http"); u != "" {
		return newWebhook(u, s.Text("signing_key"), s.Duration("timeout"))
	}
	l, err := handler.NewLauncher()
	if err != nil {
		return nil, err
	}
	b.close = append(b.close, func() { l.Close() })
	if command := s.Text("exec"); command != "" {
		return newProgram(command, l, s.Duration("timeout")), nil
	}
	k, p := newKept(s.Text("pipe"), int(b.section.Int("concurrency")), l, s.Duration("timeout"), b.env.Logger)
	b.close = append([]func(){p.Close}, b.close...)
	return k, nil
}

func (b *bridge) pipeline(h Handler) (*pipeline.Pipeline, error) {
	stages, err := b.stages(h)
	if err != nil {
		return nil, err
	}
	return &pipeline.Pipeline{
		Stages: stages,
		Needs: []store.Capability{store.CanSurvive, store.CanExclusive, store.CanUnique, store.CanMarks,
			store.CanTopics},
		Run: b.run, Health: b.health, Metrics: b.metrics(),
		Drained: func() {
			b.handled.close()
			for _, f := range b.close {
				f()
			}
		},
	}, nil
}

// stages are the topics of the pipeline.
func (b *bridge) stages(h Handler) ([]pipeline.Stage, error) {
	where := b.messages
	if where == nil {
		where = b.env.Store
	}
	topic, slots := b.section.Section("messages").Text("topic"), int(b.section.Int("concurrency"))
	in := &inbox{
		topic: topic, store: where, home: b.env.Store, ledger: b.ledger, log: b.env.Logger,
		stored: b.stored, failed: b.notStored,
	}
	pull := &puller{
		client: b.client, accounts: b.accounts, inbox: in, halt: b.halt, listed: b.section.Texts("accounts"),
		ring: b.bells.ring, token: b.bells.token, refused: b.bells.refused, log: b.env.Logger,
	}
	respond := &responder{
		handler: h, home: b.env.Store, replies: b.env.Topic(stageReplies), handled: b.handled,
		asked: b.figures.asked, done: b.succeeded,
	}
	var codes []int
	for _, text := range b.section.Texts("duplicate_msgid_errcodes") {
		code, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("duplicate_msgid_errcodes: %q is not a number", text)
		}
		codes = append(codes, code)
	}
	replies := &replier{client: b.client, ledger: b.ledger, duplicates: codes, halt: b.halt, ended: b.figures.ended}
	// 45033 says that there are too many calls at once: the limiter learns how many there may be.
	calls, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: b.env.Name + ".send_msg", Concurrency: slots,
		Adaptive: slots})
	if err != nil {
		return nil, err
	}
	return []pipeline.Stage{
		{Topic: dispatch.Topic{
			Name: b.env.Topic(stagePull), Handler: pull, Concurrency: pullSlots, Lease: lease, Emits: []string{topic},
			Event:    policy.Event{Type: "WecomPull"},
			Settings: store.Declaration{Order: store.OrderKey, Deadline: pullLongest},
		}},
		{Topic: dispatch.Topic{
			Name: topic, Handler: respond, Concurrency: slots, Lease: lease, Event: policy.Event{Type: "WecomMessage"},
			Settings: store.Declaration{Order: store.OrderKey}, Emits: []string{b.env.Topic(stageReplies)},
		}, Store: b.messages},
		{Topic: dispatch.Topic{
			Name: b.env.Topic(stageReplies), Handler: replies, Concurrency: slots, Lease: lease,
			Event:    policy.Event{Type: "WecomReply"},
			Settings: store.Declaration{Order: store.OrderKey}, Limits: []*dispatch.Limiter{calls},
		}},
	}, nil
}

// halt pauses the pipeline until a person has corrected its configuration and resumes it.
func (b *bridge) halt(ctx context.Context, err error) error {
	reason := b.env.Redact(err.Error())
	b.mu.Lock()
	before := b.halted
	b.halted = reason
	b.mu.Unlock()
	topics, ok := store.As[store.Topics](b.env.Store)
	if !ok {
		return pawl.Throttled(err, time.Minute)
	}
	names := []string{b.env.Topic(stagePull), b.env.Topic(stageReplies)}
	if b.messages == nil {
		names = append(names, b.section.Section("messages").Text("topic"))
	}
	for _, name := range names {
		if err := topics.Pause(ctx, name, 0, b.env.Owner, reason); err != nil {
			return fmt.Errorf("pause %s: %w", name, err)
		}
	}
	if before != reason {
		b.env.Logger.Error("the pipeline is paused until its configuration is corrected", "error", reason, "next",
			"pawl pipelines resume "+b.env.Name)
	}
	return pawl.Release(haltBlock, reason)
}

// called counts a call. One that succeeds after a pause shows that the configuration has been corrected.
func (b *bridge) called(api, result string, took time.Duration) {
	b.figures.called(api, result, took)
	if result != "ok" || api == "gettoken" { // a token is also given to applications that may not call any API
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halted = ""
}

func (b *bridge) stored(msgType string, took time.Duration) {
	b.figures.pulled.Add(1, b.env.Name, knownType(msgType))
	b.figures.storeTime.Observe(took, b.env.Name)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.storing, b.storedAt = "", time.Now()
}

func (b *bridge) notStored(err error) {
	b.figures.unstored.Add(1, b.env.Name)
	b.mu.Lock()
	before := b.storing
	b.storing = "messages cannot be stored: " + err.Error()
	b.mu.Unlock()
	if before == "" {
		b.env.Logger.Error("messages cannot be stored; they are tried again, and the cursor stays", "error", err)
	}
}

func (b *bridge) succeeded(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = at
}

// run listens for callbacks, and has all accounts pulled from time to time.
func (b *bridge) run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { b.listen(ctx) })
	wg.Go(func() { b.watch(ctx) })
	wg.Go(func() { b.handled.run(ctx) })
	b.reconcile(ctx)
	wg.Wait()
	return nil
}

// reconcile finds missed callbacks: WeCom sends each only three times. Several processes ask for it; what they ask for
// at the same time is done once.
func (b *bridge) reconcile(ctx context.Context) {
	for {
		if err := b.bells.ring(ctx, doorbell{Poll: true}); err != nil && ctx.Err() == nil {
			b.env.Logger.Warn("the accounts could not be asked for", "error", err)
		}
		if store.Sleep(ctx, b.section.Duration("reconcile")) != nil {
			return
		}
	}
}

// listen serves the callback.
func (b *bridge) listen(ctx context.Context) {
	mux, at := http.NewServeMux(), b.section.Text("listen")
	mux.Handle(b.section.Text("path"), b.callback)
	pipeline.Serve(ctx, at, mux, func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deaf = ""
		if err == nil {
			b.env.Logger.Info("the callback listens", "listen", at, "path", b.section.Text("path"))
			return
		}
		b.deaf = "the callback does not listen: " + err.Error()
		b.env.Logger.Error("the callback does not listen; it is tried again", "listen", at, "error", err)
	})
}
