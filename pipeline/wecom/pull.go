package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

const (
	pageLimit = 1000
	emptyWait = 100 * time.Millisecond // before a page is asked for again that was empty and did not move the cursor
	emptyMost = time.Second
	slowPage  = time.Second // a page that is pulled without the token of a callback, in the long run
	freePages = 5           // of those in one go
	// pullFor is how long an account is pulled in one go. Then others get their turn.
	pullFor = time.Minute
	// What WeCom is too busy for is asked for again at once, as often as its vendor allows, before the pull fails.
	busyTimes = 3
	busyWait  = 200 * time.Millisecond
)

// puller carries out NAME.pull.
type puller struct {
	client   *client
	accounts *accounts
	inbox    *inbox
	halt     func(ctx context.Context, err error) error
	// listed are the accounts of the configuration; none: those of account/list.
	listed []string
	ring   func(ctx context.Context, bell doorbell) error
	// token returns the newest token for an account, and refused forgets one.
	token   func(account string) string
	refused func(account, token string)
	log     *slog.Logger
}

// page is an answer of sync_msg.
type page struct {
	Next string            `json:"next_cursor"`
	More int               `json:"has_more"`
	List []json.RawMessage `json:"msg_list"`
}

// Handle implements pawl.Handler.
func (p *puller) Handle(ctx context.Context, d *pawl.Delivery) error {
	var bell doorbell
	if err := json.Unmarshal(d.Body, &bell); err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	if bell.Account == "" {
		return p.failure(ctx, "", p.all(ctx, bell))
	}
	if time.Since(d.EnqueuedAt) > tokenLife {
		bell.Token = ""
	}
	return p.failure(ctx, bell.Account, p.pull(ctx, bell, d.EnqueuedAt))
}

// all rings for every known account.
func (p *puller) all(ctx context.Context, bell doorbell) error {
	known := slices.Clone(p.listed)
	var failed error
	if len(known) == 0 {
		known, failed = p.list(ctx)
		for id := range p.accounts.all(ctx) {
			known = append(known, id)
		}
	}
	slices.Sort(known)
	for _, id := range slices.Compact(known) {
		bell.Account = id
		if err := p.ring(ctx, bell); err != nil {
			return err
		}
	}
	return failed
}

// list asks for the accounts of the corporation.
func (p *puller) list(ctx context.Context) (ids []string, err error) {
	const limit = 100
	for offset := 0; ; offset += limit {
		var answer struct {
			Accounts []struct {
				ID string `json:"open_kfid"`
			} `json:"account_list"`
		}
		err := p.client.call(ctx, "kf/account/list", map[string]int{"offset": offset, "limit": limit}, &answer)
		if err != nil {
			return ids, err
		}
		for _, a := range answer.Accounts {
			ids = append(ids, a.ID)
		}
		if len(answer.Accounts) < limit {
			return ids, nil
		}
	}
}

// pull pulls an account until there is nothing more.
func (p *puller) pull(ctx context.Context, bell doorbell, rang time.Time) error {
	now, err := p.accounts.get(ctx, bell.Account)
	if err != nil {
		return err
	}
	if now.Parked != "" && bell.Poll && !bell.Unpark {
		return nil
	}
	if !bell.Poll {
		now.LastDoorbell = rang
	}
	now.LastPull, now.Parked = time.Now(), ""
	began, still, advanced := time.Now(), 0, false
	for slow := 0; ; {
		pg, err := p.page(ctx, &bell, now.Cursor)
		if advanced && unanswered(err) && ctx.Err() == nil {
			// The attempts of this doorbell are no longer relevant: the rest is pulled for a new doorbell, without
			// the backoff of past failures.
			return p.ring(ctx, bell)
		}
		if err != nil {
			return err
		}
		moved := pg.Next != "" && pg.Next != now.Cursor
		advanced = advanced || moved
		if err := p.inbox.take(ctx, bell.Account, pg.List); err != nil {
			return fmt.Errorf("store the messages of %s: %w", bell.Account, err)
		}
		if moved {
			now.Cursor = pg.Next
		}
		now.Behind = pg.More != 0
		now.Pulled += int64(len(pg.List))
		if moved || !now.Behind {
			now.Fresh = time.Now()
		}
		if err := p.accounts.put(ctx, bell.Account, &now); err != nil {
			return err
		}
		if !now.Behind {
			return nil
		}
		if time.Since(began) > pullFor {
			return p.ring(ctx, bell)
		}
		if still++; moved || len(pg.List) > 0 {
			still = 0
		}
		pause := time.Duration(0)
		if still > 0 {
			pause = min(emptyWait<<min(still, 10), emptyMost)
		}
		if bell.Token == "" {
			if slow++; slow >= freePages {
				// The rest is for another doorbell. One that brings a token has its turn before that, and takes it all.
				bell.Poll, bell.after = !bell.Unpark, freePages*slowPage
				return p.ring(ctx, bell)
			}
		}
		if err := store.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// page asks for the next messages: with the token of the callback as long as WeCom takes it.
func (p *puller) page(ctx context.Context, bell *doorbell, cursor string) (page, error) {
	for busy := 0; ; {
		in := map[string]any{"open_kfid": bell.Account, "limit": pageLimit, "voice_format": 0}
		if cursor != "" {
			in["cursor"] = cursor
		}
		if newest := p.token(bell.Account); newest != "" {
			bell.Token = newest
		}
		if bell.Token != "" {
			in["token"] = bell.Token
		}
		limit := "kf/sync_msg"
		if bell.Token == "" {
			limit += " without a token" // what WeCom refuses then, it does not refuse with one
		}
		var pg page
		err := p.client.callWithin(ctx, limit, "kf/sync_msg", in, &pg)
		e, answered := errors.AsType[*apiError](err)
		switch {
		case answered && e.row.action == untoken && bell.Token != "":
			p.refused(bell.Account, bell.Token)
			bell.Token = ""
		case answered && e.row.action == again && busy < busyTimes:
			busy++
			if err := store.Sleep(ctx, busyWait<<busy); err != nil {
				return pg, err
			}
		default:
			return pg, err
		}
	}
}

// unanswered reports whether WeCom could not be reached, or gave no answer: the next call may succeed.
func unanswered(err error) bool {
	_, uncertain := errors.AsType[*uncertainError](err)
	return uncertain
}

// failure describes an error to the policy.
func (p *puller) failure(ctx context.Context, id string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, errTakenOver) {
		return pawl.Release(time.Second, err.Error())
	}
	e, answered := errors.AsType[*apiError](err)
	if answered && e.row.action == park && id != "" {
		return p.park(ctx, id, e)
	}
	if answered && e.row.action == again {
		p.log.Warn("a pull is given up: WeCom is too busy, and may not be asked again so soon; the next doorbell or "+
			"reconciliation pulls", "open_kfid", id, "error", err)
		return nil
	}
	return explain(ctx, err, p.halt)
}

// park leaves an account alone until it rings, or a person asks for it.
func (p *puller) park(ctx context.Context, id string, why error) error {
	now, err := p.accounts.get(ctx, id)
	if err != nil {
		return err
	}
	p.log.Warn("an account is parked: it is pulled again when it rings, or by `pawl wecom pull`", "open_kfid", id,
		"error", why)
	now.Parked = why.Error()
	return p.accounts.put(ctx, id, &now)
}

// explain turns an error of a call into what the policy needs.
func explain(ctx context.Context, err error, halt func(context.Context, error) error) error {
	if b, ok := errors.AsType[*blockedError](err); ok {
		return pawl.Release(b.in, err.Error())
	}
	if _, ok := errors.AsType[*uncertainError](err); ok {
		return policy.With(pawl.OfKind(KindAway, err), policy.Connect)
	}
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	if e.row.code == 0 {
		return pawl.OfKind(KindUnknownCode, err)
	}
	err = pawl.OfKind(e.row.kind, err)
	switch e.row.action {
	case stop:
		return halt(ctx, err)
	case wait:
		return pawl.Release(firstBlock, err.Error())
	case slower:
		return pawl.Throttled(err, time.Second)
	case refuse, park:
		return pawl.Permanent(err)
	default:
		return err
	}
}
