package wecom

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// doorbell is the body of a message of NAME.pull: an account that is to be pulled.
type doorbell struct {
	Account string `json:"account,omitempty"` // empty: all that are known
	Token   string `json:"token,omitempty"`   // of the callback; empty: there was none
	// Poll tells that no callback rang: a periodic pull, which leaves parked accounts alone.
	Poll bool `json:"poll,omitempty"`
	// Unpark tells that a person asked for the pull: it includes a parked account.
	Unpark bool `json:"unpark,omitempty"`

	after time.Duration // not before
}

// tokenLife is how long the token of a callback is valid.
const tokenLife = 10 * time.Minute

const laneOfAll = "accounts" // no account is called so: their ids begin with wk

// bells stores doorbells as messages of NAME.pull. Those of one account are one until its pull begins: what rings later
// is stored.
type bells struct {
	store store.Store
	topic string
	log   *slog.Logger

	mu   sync.Mutex
	next map[string]*ringing // by lane and kind: the rings that share the next call
	busy map[string]bool     // a call is under way
	last map[string]string   // id of the doorbell that was there last
	// fresh are the newest tokens that callbacks brought, by account: a doorbell that was there
	// before, and a pull under way, have older ones or none.
	fresh map[string]freshToken
}

type freshToken struct {
	token string
	at    time.Time
}

// ringing is a call to the store, with the callers that wait for it.
type ringing struct {
	bell doorbell // the newest: its token lasts longest
	done chan struct{}
	err  error
}

func newBells(s store.Store, topic string, log *slog.Logger) *bells {
	return &bells{store: s, topic: topic, log: log, next: map[string]*ringing{}, busy: map[string]bool{},
		last: map[string]string{}, fresh: map[string]freshToken{}}
}

// token returns the newest token for an account that came to this process and is still valid; empty: there is none.
func (b *bells) token(account string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.fresh[account]; time.Since(f.at) < tokenLife {
		return f.token
	}
	delete(b.fresh, account)
	return ""
}

// refused forgets a token that WeCom does not take.
func (b *bells) refused(account, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fresh[account].token == token {
		delete(b.fresh, account)
	}
}

// ring returns when a doorbell is durable whose pull had not begun when ring was called. Callbacks come in by the
// thousand while a page of messages is being stored, so those of one account share a call: one that begins after each
// of them has come, for the pull of a doorbell that was there before may have begun.
func (b *bells) ring(ctx context.Context, bell doorbell) error {
	kind := "ring/"
	switch {
	case bell.Unpark:
		kind = "ask/"
	case bell.Poll:
		kind = "poll/"
	}
	key := kind + string(bell.lane())
	b.mu.Lock()
	if kind == "ring/" && bell.Token != "" && bell.Account != "" {
		b.fresh[bell.Account] = freshToken{bell.Token, time.Now()}
	}
	r := b.next[key]
	if r == nil {
		r = &ringing{done: make(chan struct{})}
		b.next[key] = r
	}
	r.bell = bell
	if !b.busy[key] {
		b.busy[key] = true
		go b.work(context.WithoutCancel(ctx), key)
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *doorbell) lane() []byte {
	if d.Account == "" {
		return []byte(laneOfAll)
	}
	return fitKey(d.Account)
}

// work makes calls until no caller waits for one.
func (b *bells) work(ctx context.Context, key string) {
	for {
		b.mu.Lock()
		r := b.next[key]
		delete(b.next, key)
		if r == nil {
			delete(b.busy, key)
		}
		b.mu.Unlock()
		if r == nil {
			return
		}
		brief, cancel := context.WithTimeout(ctx, callbackStore)
		r.err = b.keep(brief, key, &r.bell)
		if cancel(); r.err != nil { // once for all callbacks that share the call
			b.log.Error("callbacks could not be stored; WeCom repeats them", "open_kfid", r.bell.Account, "error", r.err)
		}
		close(r.done)
	}
}

// keep stores a doorbell, unless there is one that was not claimed yet.
func (b *bells) keep(ctx context.Context, key string, bell *doorbell) error {
	if b.waits(ctx, key) {
		return nil
	}
	body, err := json.Marshal(bell)
	if err != nil {
		return err
	}
	receipts, err := b.store.Append(ctx, store.NewBatch(pawl.Message{
		Topic: b.topic, Key: bell.lane(), Body: body, Delay: bell.after,
		Unique: pawl.Unique{Key: key, For: pawl.UntilClaimed},
	}))
	if err != nil {
		return err
	}
	if receipts[0].Err == nil {
		b.mu.Lock()
		b.last[key] = cmp.Or(receipts[0].DuplicateOf, receipts[0].ID)
		b.mu.Unlock()
	}
	return receipts[0].Err
}

// waits reports whether the doorbell that was there last is still there, and was never claimed: to look takes no
// transaction, and waits for none.
func (b *bells) waits(ctx context.Context, key string) bool {
	b.mu.Lock()
	id := b.last[key]
	b.mu.Unlock()
	look, ok := store.As[store.Inspector](b.store)
	if id == "" || !ok {
		return false
	}
	r, err := look.Get(ctx, id)
	return err == nil && r.State == store.Waiting && r.Attempts+r.Rescues+r.Throttles == 0
}
