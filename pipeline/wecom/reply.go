package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// welcomeLife is how long the code of an enter_session event is valid.
const welcomeLife = 20 * time.Second

// replier carries out NAME.replies: it makes the calls that answer, each once.
//
// Before a call, the ledger says that it is open, and its place in the budget is taken. A process that dies leaves it
// so: the call is repeated with the same msgid, and WeCom refuses a msgid that it has.
type replier struct {
	client     *client
	ledger     *ledger
	duplicates []int // codes that mean: there was such a msgid
	halt       func(ctx context.Context, err error) error
	ended      func(state, class string)
}

// Handle implements pawl.Handler.
func (r *replier) Handle(ctx context.Context, d *pawl.Delivery) error {
	var t task
	if err := json.Unmarshal(d.Body, &t); err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	now, err := r.ledger.reply(ctx, t.MsgID)
	if err != nil || now.State == sent || now.State == failed {
		return err
	}
	now.MsgID, now.MessageID, now.Call, now.Index = t.MsgID, t.MessageID, t.Call, t.Index
	now.User, now.OpenKfID = t.User, t.OpenKfID
	var left allowance
	if t.Call == callReply {
		if left, err = r.ledger.allowance(ctx, t.OpenKfID, t.User); err != nil {
			return err
		}
	}
	if no := r.refuses(&t, &now, &left); no != nil {
		return r.refuse(ctx, &now, no)
	}
	wasOpen := now.Open
	if !wasOpen {
		now.Window = left.spent.Since
	}
	now.State, now.Class, now.Open, now.Attempts = pending, "", true, now.Attempts+1
	if put, err := r.ledger.put(ctx, &now, r.spend(&t, &left)...); err != nil || !put {
		return errors.Join(err, changed(put))
	}
	return r.close(ctx, &t, &now, &left, wasOpen, r.call(ctx, &t))
}

func changed(put bool) error {
	if put {
		return nil
	}
	return pawl.Release(0, "another process has changed the reply in the ledger")
}

// refuses says why a call must not be made. One that may have been made is repeated all the same: only WeCom can tell.
func (r *replier) refuses(t *task, now *reply, left *allowance) *errcode {
	switch {
	case now.Open:
		return nil
	case t.Call == callReply:
		return left.refuses(t.MsgID, r.ledger.now())
	case t.Call == callWelcome && r.ledger.now().Sub(time.Unix(t.At, 0)) > welcomeLife:
		return &errcode{kind: KindWindow, class: "code_expired",
			meaning: "the code of a welcome is valid for 20 seconds"}
	}
	return nil
}

// refuse ends a reply before it is sent.
func (r *replier) refuse(ctx context.Context, now *reply, no *errcode) error {
	now.State, now.Class, now.Errcode = refused, no.class, 0
	put, err := r.ledger.put(ctx, now)
	if err == nil && put {
		err = r.ledger.refusedOne(ctx, now.OpenKfID)
	}
	if err != nil || !put {
		return errors.Join(err, changed(put))
	}
	r.ended(now.State, now.Class)
	return pawl.Permanent(pawl.OfKind(no.kind, errors.New("not sent: "+no.meaning)))
}

func (r *replier) spend(t *task, left *allowance) []pawl.Mark {
	if t.Call != callReply {
		return nil
	}
	return []pawl.Mark{r.ledger.spend(left, t.MsgID)}
}

// call makes the call.
func (r *replier) call(ctx context.Context, t *task) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(t.Body, &body); err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	set := func(name, value string) { body[name], _ = json.Marshal(value) } //nolint:errchkjson // texts
	switch t.Call {
	case callWelcome:
		set("msgid", t.MsgID)
		return r.client.call(ctx, "kf/send_msg_on_event", body, nil)
	case callTransfer:
		set("open_kfid", t.OpenKfID)
		set("external_userid", t.User)
		return r.client.call(ctx, "kf/service_state/trans", body, nil)
	default:
		set("touser", t.User)
		set("open_kfid", t.OpenKfID)
		set("msgid", t.MsgID)
		return r.client.call(ctx, "kf/send_msg", body, nil)
	}
}

// close records the outcome of a call.
func (r *replier) close(ctx context.Context, t *task, now *reply, left *allowance, wasOpen bool, err error) error {
	var others []pawl.Mark
	result := err
	e, answered := errors.AsType[*apiError](err)
	_, notCalled := errors.AsType[*notCalledError](err)
	if answered {
		now.Errcode, now.Class = e.code, e.row.class
	}
	switch {
	case err == nil, answered && !notCalled && r.isSent(t, e, wasOpen):
		if err != nil && t.Call == callReply && now.Window != left.spent.Since {
			others = append(others, r.ledger.refund(left, t.MsgID)) // it arrived before the customer wrote again
		}
		now.State, now.Class, now.Errcode, now.Open, result = sent, "", 0, false, nil
	case notCalled:
		now.Open, now.Attempts = wasOpen, now.Attempts-1
	case answered && (e.row.code == 0 || e.row.action == refuse || e.row.action == park):
		now.State, now.Open = refused, false
		if e.row.code == 0 {
			now.Class = "unknown"
			result = pawl.Permanent(pawl.OfKind(KindUnknownCode, err))
		}
		if t.Call == callReply {
			others = append(others, r.ledger.refund(left, t.MsgID))
		}
	case answered && e.row.action != again:
		now.Open = wasOpen // WeCom reports that it did nothing
	}
	if !now.Open {
		now.Window = ""
	}
	put, kept := r.ledger.put(context.WithoutCancel(ctx), now, others...)
	if kept != nil {
		return errors.Join(result, kept) // it is open in the ledger: it is repeated
	}
	if !put && now.State == sent {
		return nil // msg_send_fail was quicker
	}
	if now.State != pending {
		r.ended(now.State, now.Class)
	}
	if result == nil || now.State == pending && ctx.Err() != nil {
		return result
	}
	return explain(ctx, result, r.halt)
}

// isSent reports whether a code means that an earlier attempt has arrived: it is that of a duplicate, or, where an
// attempt may have arrived, one that is in no table. That of a duplicate is not documented.
func (r *replier) isSent(t *task, e *apiError, wasOpen bool) bool {
	if slices.Contains(r.duplicates, e.code) {
		return true
	}
	if t.Call == callTransfer {
		return wasOpen && e.code == 95016 // it is in that state
	}
	return wasOpen && e.row.code == 0
}
