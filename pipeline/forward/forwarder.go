package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// forwarder is one pipeline in one process.
type forwarder struct {
	env    pipeline.Env
	api    *client
	state  store.Shared
	marks  store.Shared
	looker store.Inspector
	rules  *rules
	leader *leader
	pacer  *pacer
	gate   *dispatch.Limiter
	open   atomic.Bool // it is: this process leads
	ranks  store.Topic // the formula of ageing, for messages that wait for a limit
	admins []int64
	prefix string
	figs   figures

	commands atomic.Pointer[parser] // nil until Telegram has told the bot's name
	bot      atomic.Int64

	mu      sync.Mutex
	moved   map[int64]int64 // groups that became supergroups
	trouble string          // why nothing is received or sent
	success time.Time
}

// The stages.
const (
	stageUpdates = "updates"
	stageSend    = "send"
)

func (f *forwarder) say(trouble string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = trouble
}

func (f *forwarder) succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.success = time.Now()
}

func (f *forwarder) health(context.Context) pipeline.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pipeline.Health{Degraded: f.trouble, LastSuccess: f.success}
}

// introduce asks Telegram for the name of the bot, until it answers.
func (f *forwarder) introduce(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		me, err := f.api.me(ctx)
		switch {
		case err == nil:
			f.met(me)
			return nil
		case refusedToken(err):
			return pipeline.Fatal(fmt.Errorf("the token is refused: %w", err))
		case ctx.Err() != nil:
			return nil
		}
		f.say("Telegram does not answer: " + err.Error())
		f.env.Logger.Warn("Telegram does not say who the bot is", "error", err, "again_in", wait)
		if store.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

func refusedToken(err error) bool { return codeOf(err) == 401 || codeOf(err) == 404 }

func (f *forwarder) met(me user) {
	f.bot.Store(me.ID)
	f.commands.Store(newParser(f.prefix, me.Username))
	f.say("")
}

// run is what goes on beside the stages.
func (f *forwarder) run(ctx context.Context) error {
	if err := f.introduce(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := f.rules.refresh(ctx); err != nil {
		return err
	}
	f.register(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() { f.watchRules(ctx) })
	work := f.poll
	if f.env.Section.Text("updates") == updatesWebhook {
		work = f.announceWebhook
		wg.Go(func() { f.listen(ctx) })
	}
	f.leader.run(ctx, func(ctx context.Context) {
		if err := work(ctx); err != nil {
			stop(err)
		}
	})
	wg.Wait()
	if err := context.Cause(ctx); pipeline.IsFatal(err) {
		return err
	}
	return nil
}

// watchRules reads changes that other processes made, for the sender and for the priority of new updates. The matching
// of an update reads them by itself.
func (f *forwarder) watchRules(ctx context.Context) {
	for store.Sleep(ctx, time.Second) == nil {
		if err := f.rules.refresh(ctx); err != nil && ctx.Err() == nil {
			f.env.Logger.Warn("the rules could not be read", "error", err)
		}
	}
}

// register tells Telegram the commands, so that its clients offer them. The bot works without.
func (f *forwarder) register(ctx context.Context) {
	for _, l := range []language{english, chinese} {
		params := map[string]any{"commands": menu(l, f.prefix)}
		if l == chinese {
			params["language_code"] = "zh"
		}
		if err := f.api.call(ctx, callTimeout, "setMyCommands", params, nil); err != nil && ctx.Err() == nil {
			f.env.Logger.Warn("the commands could not be registered with Telegram", "error", err)
		}
	}
}

// audit notes a change of a rule.
func (f *forwarder) audit(ctx context.Context, who, action string, rule *Rule, change string) {
	if f.env.Audit == nil {
		return
	}
	if err := f.env.Audit(ctx, who, action, fmt.Sprintf("%s rule %d (%s)", f.env.Name, rule.ID, rule.Source),
		change); err != nil {
		f.env.Logger.Error("a change of a rule could not be noted in the audit", "rule", rule.ID, "change", change,
			"error", err)
	}
}

// poll asks for updates until ctx ends. An update is confirmed by asking for the one after it, which happens
// only after it was stored.
func (f *forwarder) poll(ctx context.Context) error {
	const longest = 25 * time.Second
	offset, last := f.leader.offset(), time.Now()
	for wait := time.Second; ctx.Err() == nil; {
		if time.Since(last) > offsetOld { // see leadRecord
			offset = 0
		}
		raw, err := f.api.updates(ctx, offset, longest)
		if err == nil && len(raw) > 0 {
			offset, err = f.store(ctx, raw)
			last = time.Now()
		}
		if err == nil {
			wait = time.Second
			f.say("")
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if codeOf(err) == 401 {
			return pipeline.Fatal(fmt.Errorf("the token is refused: %w", err))
		}
		wait = f.pollFailed(ctx, err, wait)
	}
	return nil
}

// pollFailed waits before the next try and returns how long to wait after that.
func (f *forwarder) pollFailed(ctx context.Context, err error, wait time.Duration) time.Duration {
	f.say("no updates come: " + err.Error())
	f.figs.pollErrors.Add(1, f.env.Name)
	e := asAPI(err)
	switch {
	case e != nil && e.Code == 409 && webhookThere(e.Description):
		if err := f.api.call(ctx, callTimeout, "deleteWebhook", struct{}{}, nil); err == nil {
			return wait
		}
	case e != nil && e.RetryAfter > 0:
		wait = max(e.RetryAfter, time.Second)
	}
	f.env.Logger.Warn("Telegram gives no updates", "error", err, "again_in", wait)
	_ = store.Sleep(ctx, wait)
	return min(2*wait, 15*time.Second)
}

// store stores updates and returns the offset behind them.
func (f *forwarder) store(ctx context.Context, raw []json.RawMessage) (offset int64, err error) {
	msgs := make([]pawl.Message, 0, len(raw))
	for _, r := range raw {
		m, id, err := f.incoming(r)
		if err != nil {
			f.env.Logger.Error("an update cannot be read; it is left out", "error", err, "update", cut(string(r), 200))
		} else if m.Topic != "" {
			msgs = append(msgs, m)
		}
		offset = max(offset, id+1)
	}
	failed := func(err error) { f.say("updates cannot be stored: " + err.Error()) }
	refuse := func(_ []pawl.Message, why error) error { return fmt.Errorf("updates could not be stored: %w", why) }
	if err := pipeline.AppendAll(ctx, f.env.Store, msgs, failed, refuse); err != nil {
		return 0, err
	}
	f.figs.updates.Add(float64(len(raw)), f.env.Name)
	return offset, f.leader.renew(ctx, &offset)
}

// keepUpdates is for how long a repeated update is known: longer than Telegram keeps one.
const keepUpdates = 48 * time.Hour

// incoming is an update as a message. Updates of one chat are handled in their order; those of a chat with a
// high priority before others. One without a chat has no topic: there is nothing to do about it.
func (f *forwarder) incoming(raw json.RawMessage) (m pawl.Message, id int64, err error) {
	var u update
	if err := json.Unmarshal(raw, &u); err != nil {
		var only struct {
			ID int64 `json:"update_id"`
		}
		_ = json.Unmarshal(raw, &only) // so that what cannot be read is confirmed all the same
		return m, only.ID, err
	}
	what, edited := u.what()
	if what == nil {
		return m, u.ID, nil
	}
	m = pawl.Message{
		Topic: f.env.Topic(stageUpdates), Key: fmt.Append(nil, what.Chat.ID), Body: raw,
		Unique: pawl.Unique{Key: fmt.Sprintf("%d/%d", f.bot.Load(), u.ID), For: keepUpdates},
	}
	if rule := f.rules.of(Place{what.Chat.ID, what.topic()}); rule != nil {
		m.Priority = rule.Priority
	}
	if p := f.commands.Load(); p != nil && !edited {
		if _, ok := p.parse(what.Text); ok {
			m.Priority = critical
		}
	}
	return m, u.ID, nil
}

func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
