package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Kinds of failures of the stage send.
const (
	KindTelegram pawl.Kind = "Telegram"        // no answer, or an internal error of Telegram
	KindRejected pawl.Kind = "TelegramReject"  // Telegram will never do this: the message is gone, or protected
	KindBlocked  pawl.Kind = "TelegramBlocked" // the target does not let the bot in
)

// copiesKept is for how long an edit of a message reaches its copies.
const copiesKept = 7 * 24 * time.Hour

func inLane(d *pawl.Delivery) store.Filter {
	return store.Filter{Topic: d.Topic, Key: d.Key, Limit: 100}
}

// handleSend carries out a job.
func (f *forwarder) handleSend(ctx context.Context, j job, d *pawl.Delivery) error {
	if !f.leader.leads() {
		return pawl.Release(leadLook, "another process sends")
	}
	j.To.Chat = f.movedTo(j.To.Chat)
	if rule := f.rules.current(j.Rule); rule != nil && rule.off(j.To) {
		return pawl.Permanent(pawl.OfKind(KindBlocked,
			fmt.Errorf("the target %s of rule %d is disabled, because it refused the bot", j.To, j.Rule)))
	}
	rank, weight := f.ranks.Rank(d.EnqueuedAt, d.Priority), max(len(j.IDs), 1)
	if wait := f.pacer.enter(ctx, j.To.Chat, string(d.Key), rank, weight); wait > 0 {
		return pawl.Release(wait, "the chat has to wait for its limit")
	}
	if err := f.pacer.awaitTurn(ctx, rank, weight); err != nil {
		f.pacer.leave(j.To.Chat, weight, false, 0)
		if errors.Is(err, errStopped) {
			return pawl.Release(0, err.Error())
		}
		return err
	}
	wait := time.Since(d.EnqueuedAt)
	err := f.carryOut(ctx, &j)
	var pause time.Duration
	if e := asAPI(err); e != nil && e.Code == 429 {
		pause = max(e.RetryAfter, time.Second)
	}
	hold := f.pacer.leave(j.To.Chat, weight, true, pause)
	if err != nil {
		return f.failed(ctx, &j, err, hold)
	}
	f.succeeded()
	f.figs.sent(f.env.Name, &j, d.Priority, wait)
	if hold > soon {
		d.Hold(hold - soon/2)
	}
	return nil
}

func (f *forwarder) movedTo(chat int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to, ok := f.moved[chat]; ok {
		return to
	}
	return chat
}

// failed says what a failed call means.
func (f *forwarder) failed(ctx context.Context, j *job, err error, hold time.Duration) error {
	e := asAPI(err)
	switch {
	case e == nil:
		if !neverSent(err) {
			f.figs.unknown.Add(1, f.env.Name) // it may have been carried out: the repetition may be a duplicate
		}
		return pawl.OfKind(KindTelegram, err)
	case e.Code == 429:
		f.figs.throttled.Add(1, f.env.Name)
		return pawl.Release(hold, err.Error())
	case e.MigrateTo != 0:
		if err := f.migrate(ctx, j.To.Chat, e.MigrateTo); err != nil {
			return err
		}
		return pawl.Release(0, err.Error())
	case e.Code == 401 || e.Code == 404:
		f.say("Telegram refuses the token")
		return pawl.Release(30*time.Second, err.Error())
	case e.Code == 403:
		return f.blocked(ctx, j, err)
	case e.Code >= 500:
		return pawl.OfKind(KindTelegram, err)
	}
	return pawl.Permanent(pawl.OfKind(KindRejected, err))
}

// neverSent tells errors of a call that did not reach the other side.
func neverSent(err error) bool {
	if _, ok := errors.AsType[*foreignError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// blocked disables a target that refuses the bot, and tells the owner.
func (f *forwarder) blocked(ctx context.Context, j *job, cause error) error {
	refused := pawl.Permanent(pawl.OfKind(KindBlocked, cause))
	if f.rules.current(j.Rule) == nil {
		return refused
	}
	first := false
	_, now, err := f.rules.change(ctx, j.Rule, "telegram", func(r *Rule) error {
		if first = !r.off(j.To); first {
			r.Disabled = append(r.Disabled, j.To)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !first {
		return refused
	}
	f.figs.blocked.Add(1, f.env.Name)
	f.audit(ctx, "telegram", "forward.rules.disable", now, fmt.Sprintf("target %s: %v", j.To, cause))
	if len(f.admins) == 0 {
		return refused
	}
	name := j.To.String()
	if c, err := f.api.chat(ctx, j.To.Chat); err == nil && c.name() != "" {
		name = fmt.Sprintf("%q (%s)", c.name(), j.To)
	}
	next := f.message(&job{Do: doAnswer, To: Place{Chat: f.admins[0]}, Text: fmt.Sprintf(
		"Nothing is sent to %s any more: it refuses the bot (%s). Its messages are dead letters. "+
			"When it lets the bot in again: `pawl forward rules set %d --enable %s`, then `pawl dead replay --topic %s`.",
		name, asAPI(cause).Description, now.ID, j.To, f.env.Topic(stageSend))},
		fmt.Sprintf("answer>%d", f.admins[0]), critical)
	next.ID = fmt.Sprintf("%s.blocked.%d.%s.%d", f.env.Name, now.ID, strings.ReplaceAll(j.To.String(), "/", "."),
		now.version)
	return errors.Join(refused, store.Send(ctx, f.env.Store, next))
}

// carryOut calls Telegram.
func (f *forwarder) carryOut(ctx context.Context, j *job) error {
	switch j.Do {
	case doAnswer:
		p := f.params(j)
		p["text"] = j.Text
		if j.ReplyTo != 0 {
			p["reply_parameters"] = map[string]any{"message_id": j.ReplyTo, "allow_sending_without_reply": true}
		}
		return f.api.call(ctx, callTimeout, "sendMessage", p, nil)
	case doEdit:
		return f.editCopy(ctx, j)
	}
	if len(j.IDs) > 1 {
		return f.sendAlbum(ctx, j)
	}
	p := f.params(j)
	p["from_chat_id"], p["message_id"] = j.From.Chat, j.IDs[0]
	if j.Mode == modeForward {
		return f.api.call(ctx, callTimeout, "forwardMessage", p, nil)
	}
	method := "copyMessage"
	switch {
	case j.Bare, j.Text != "" && j.Caption:
		p["caption"] = j.Text
	case j.Text != "":
		method = "sendMessage"
		delete(p, "from_chat_id")
		delete(p, "message_id")
		p["text"] = j.Text
	}
	var made struct {
		ID int64 `json:"message_id"`
	}
	if err := f.api.call(ctx, callTimeout, method, p, &made); err != nil {
		return err
	}
	f.noteCopies(ctx, j, []int64{made.ID})
	return nil
}

func (f *forwarder) params(j *job) map[string]any {
	p := map[string]any{"chat_id": j.To.Chat}
	if j.To.Thread != 0 {
		p["message_thread_id"] = j.To.Thread
	}
	return p
}

func (f *forwarder) sendAlbum(ctx context.Context, j *job) error {
	p := f.params(j)
	p["from_chat_id"], p["message_ids"] = j.From.Chat, j.IDs
	if j.Mode == modeForward {
		return f.api.call(ctx, callTimeout, "forwardMessages", p, nil)
	}
	var made []struct {
		ID int64 `json:"message_id"`
	}
	if err := f.api.call(ctx, callTimeout, "copyMessages", p, &made); err != nil {
		return err
	}
	if len(made) == len(j.IDs) { // otherwise some were skipped, and it is unknown which
		ids := make([]int64, len(made))
		for i := range made {
			ids[i] = made[i].ID
		}
		f.noteCopies(ctx, j, ids)
	}
	return nil
}

func (f *forwarder) copyScope() string { return "forward/" + f.env.Name + "/copies" }

func copyKey(j *job, id int64) string { return fmt.Sprintf("%d/%d>%s", j.From.Chat, id, j.To) }

// noteCopies notes what became of messages, so that an edit finds their copies. Without the note an edit
// changes nothing, which is no reason to send the message again.
func (f *forwarder) noteCopies(ctx context.Context, j *job, made []int64) {
	marks := make([]pawl.Mark, len(made))
	for i, id := range made {
		marks[i] = pawl.Mark{Scope: f.copyScope(), Key: copyKey(j, j.IDs[i]), Value: fmt.Append(nil, id),
			For: copiesKept, If: pawl.AnyVersion}
	}
	if _, err := f.marks.PutMarks(ctx, marks...); err != nil {
		f.env.Logger.Warn("a copy could not be noted; edits of the message will not reach it", "error", err)
	}
}

// editCopy edits the copy of a message. If there is none, the message was not sent: it was filtered, or is
// older than its rule.
func (f *forwarder) editCopy(ctx context.Context, j *job) error {
	key := copyKey(j, j.IDs[0])
	marks, err := f.marks.GetMarks(ctx, f.copyScope(), key)
	if err != nil {
		return err
	}
	mark, ok := marks[key]
	if !ok {
		return nil
	}
	p := map[string]any{"chat_id": j.To.Chat, "message_id": json.RawMessage(mark.Value)}
	method, text, spans := "editMessageText", "text", "entities"
	if j.Caption {
		method, text, spans = "editMessageCaption", "caption", "caption_entities"
	}
	p[text] = j.Text
	if len(j.Spans) > 0 {
		p[spans] = j.Spans
	}
	err = f.api.call(ctx, callTimeout, method, p, nil)
	if e := asAPI(err); e != nil && e.Code == 400 && strings.Contains(e.Description, "not modified") {
		return nil
	}
	return err
}
