package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
)

// job is what the stage send carries out: the body of its messages.
type job struct {
	Do    string          `json:"do"`
	From  Place           `json:"from,omitzero"`
	To    Place           `json:"to"`
	Rule  int64           `json:"rule,omitempty"`
	Mode  string          `json:"mode,omitempty"`
	IDs   []int64         `json:"ids,omitempty"`
	Text  string          `json:"text,omitempty"`
	Spans json.RawMessage `json:"entities,omitempty"`
	// Caption tells that Text is that of a picture or the like.
	Caption bool `json:"caption,omitempty"`
	// Bare tells that nothing is left of the caption.
	Bare bool `json:"bare,omitempty"`
	// ReplyTo is the message that an answer is about.
	ReplyTo int64 `json:"reply_to,omitempty"`
	// Came is when the update was stored, in Unix milliseconds.
	Came int64 `json:"came,omitempty"`
}

// What a job does.
const (
	doSend   = "send"   // forward or copy IDs; with a Text, copy with that text
	doEdit   = "edit"   // edit the copy of IDs
	doAnswer = "answer" // say Text
)

// handleUpdate matches an update with the rules, or carries out its command.
func (f *forwarder) handleUpdate(ctx context.Context, u update, d *pawl.Delivery) error {
	commands := f.commands.Load()
	if commands == nil {
		return pawl.Release(time.Second, "Telegram has not said who the bot is")
	}
	m, edited := u.what()
	if m == nil {
		return nil
	}
	if err := f.rules.refresh(ctx); err != nil {
		return err
	}
	if m.MigrateTo != 0 {
		return f.migrate(ctx, m.Chat.ID, m.MigrateTo)
	}
	if m.MigrateFrom != 0 {
		return f.migrate(ctx, m.MigrateFrom, m.Chat.ID)
	}
	if m.service() || m.From != nil && m.From.ID == f.bot.Load() {
		return nil
	}
	if c, ok := commands.parse(m.Text); ok {
		if edited {
			return nil
		}
		return f.command(ctx, d, m, c)
	}
	rule := f.rules.of(Place{m.Chat.ID, m.topic()})
	switch {
	case rule == nil || !rule.Enabled:
		return nil
	case edited:
		f.edit(d, rule, m)
		return nil
	case m.MediaGroup != "":
		return f.album(ctx, d, rule, m)
	}
	if _, ok := rule.filters.pass(m); !ok {
		f.figs.filtered.Add(1, f.env.Name)
		return nil
	}
	f.send(d, rule, m, m.ID)
	return nil
}

// send emits a job for each target of a rule.
func (f *forwarder) send(d *pawl.Delivery, rule *Rule, m *message, ids ...int64) {
	j := job{Do: doSend, IDs: ids}
	if len(ids) == 1 && rule.Mode == modeCopy && m.words() != "" {
		if text, changed := rewrite(rule.replace, m.words()); changed {
			j.Text, j.Caption = text, m.Text == ""
			if j.Bare = strings.TrimSpace(text) == ""; j.Bare && !j.Caption {
				f.figs.filtered.Add(1, f.env.Name) // nothing is left of the message
				return
			}
		}
	}
	f.emit(d, rule, m, j, "")
}

// edit emits a job that edits the copies of a message.
func (f *forwarder) edit(d *pawl.Delivery, rule *Rule, m *message) {
	if rule.Mode != modeCopy || m.words() == "" {
		return
	}
	j := job{Do: doEdit, IDs: []int64{m.ID}, Text: m.Text, Spans: m.Entities}
	if m.Text == "" {
		j.Text, j.Spans, j.Caption = m.Caption, m.CaptionSpans, true
	}
	if text, changed := rewrite(rule.replace, j.Text); changed {
		if j.Text, j.Spans = text, nil; strings.TrimSpace(text) == "" && !j.Caption {
			f.figs.filtered.Add(1, f.env.Name) // a text cannot become none
			return
		}
	}
	f.emit(d, rule, m, j, "")
}

// emit emits a job for each target. once, if not empty, is the unique key that lets a second job with it fall.
func (f *forwarder) emit(d *pawl.Delivery, rule *Rule, m *message, j job, once string) {
	j.Rule, j.Mode, j.From, j.Came = rule.ID, rule.Mode, Place{m.Chat.ID, m.topic()}, d.EnqueuedAt.UnixMilli()
	for _, to := range rule.Targets {
		j.To = to
		next := f.message(&j, rule.lane(to), rule.Priority)
		if once != "" {
			next.Unique = pawl.Unique{Key: once + ">" + to.String(), For: time.Hour}
		}
		d.Emit(next)
	}
}

// answer emits what the bot says in a chat.
func (f *forwarder) answer(d *pawl.Delivery, m *message, text string) {
	j := job{Do: doAnswer, To: Place{m.Chat.ID, m.topic()}, Text: text, ReplyTo: m.ID, Came: d.EnqueuedAt.UnixMilli()}
	d.Emit(f.message(&j, fmt.Sprintf("answer>%d", m.Chat.ID), critical))
}

// message is the message of a job in a lane.
func (f *forwarder) message(j *job, lane string, priority int) pawl.Message {
	body, _ := json.Marshal(j)
	return pawl.Message{Topic: f.env.Topic(stageSend), Key: []byte(lane), Priority: priority, Body: body}
}

// albumWait is for how long the parts of an album are waited for. Telegram sends them one by one, at once.
// Only time in which a process receives updates counts: when one dies between two parts, the next leader receives the
// rest.
const (
	albumWait = time.Second
	albumLook = 250 * time.Millisecond // how often a process that does not lead looks whether one did for that long
)

// maxAlbum is how many parts an album has at most.
const maxAlbum = 10

// album handles a part of an album. The first part waits, and its chat with it so that the order stays; then
// it takes the parts that follow in the lane along, and notes which these are. A part that comes even later
// is sent by itself.
func (f *forwarder) album(ctx context.Context, d *pawl.Delivery, rule *Rule, m *message) error {
	key := fmt.Sprintf("%d/%s", m.Chat.ID, m.MediaGroup)
	ids, err := f.albumOf(ctx, key)
	if err != nil {
		return err
	}
	if ids == nil {
		parts, err := f.parts(ctx, d, m)
		if err != nil {
			return err
		}
		left, err := f.albumLeft(ctx, d.EnqueuedAt)
		if err != nil {
			return err
		}
		if left > 0 && len(parts) < maxAlbum {
			return pawl.Release(left, "the rest of the album may follow")
		}
		whole := whole(parts)
		if _, ok := rule.filters.pass(whole); !ok {
			rule = &Rule{} // the parts are noted, and go nowhere
		}
		for _, p := range parts {
			ids = append(ids, p.ID)
		}
		if err := f.noteAlbum(ctx, key, ids); err != nil {
			return err
		}
	} else if _, ok := rule.filters.pass(m); !ok && !slices.Contains(ids, m.ID) {
		return nil
	}
	switch {
	case m.ID == ids[0]:
		f.emit(d, rule, m, job{Do: doSend, IDs: ids}, "album/"+key)
	case !slices.Contains(ids, m.ID):
		f.send(d, rule, m, m.ID)
	}
	return nil
}

// albumLeft is for how long the rest of an album has to be waited for, if its first part was stored at that time.
func (f *forwarder) albumLeft(ctx context.Context, stored time.Time) (time.Duration, error) {
	now, err := f.state.Clock(ctx)
	if err != nil {
		return 0, err
	}
	from, to, err := f.leader.watched(ctx, now)
	if err != nil {
		return 0, err
	}
	end := later(from, stored).Add(albumWait)
	if !to.Before(end) {
		return 0, nil
	}
	return max(end.Sub(now), albumLook), nil
}

func (f *forwarder) albumScope() string { return "forward/" + f.env.Name + "/albums" }

// albumOf returns the parts of an album that was put together; nil if it was not.
func (f *forwarder) albumOf(ctx context.Context, key string) (ids []int64, err error) {
	_, err = pipeline.ReadMark(ctx, f.marks, f.albumScope(), key, &ids)
	return ids, err
}

func (f *forwarder) noteAlbum(ctx context.Context, key string, ids []int64) error {
	_, err := pipeline.WriteMark(ctx, f.marks, pawl.Mark{Scope: f.albumScope(), Key: key, For: time.Hour,
		If: pawl.AnyVersion}, ids)
	return err
}

// parts are the parts of an album that are in the lane of d, which is the first of them.
func (f *forwarder) parts(ctx context.Context, d *pawl.Delivery, m *message) ([]*message, error) {
	parts := []*message{m}
	for r, err := range f.looker.List(ctx, inLane(d)) {
		if err != nil {
			return nil, err
		}
		var u update
		if r.ID == d.ID || json.Unmarshal(r.Body, &u) != nil {
			continue
		}
		if p, edited := u.what(); p != nil && !edited && p.MediaGroup == m.MediaGroup && len(parts) < maxAlbum {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b *message) int { return int(a.ID - b.ID) })
	return parts, nil
}

// whole is an album as one message, for filters: its caption is at one of its parts.
func whole(parts []*message) *message {
	w := *parts[0]
	for _, p := range parts {
		if w.words() == "" {
			w.Caption = p.words()
		}
	}
	return &w
}

// migrate gives a group its new number wherever rules name it.
func (f *forwarder) migrate(ctx context.Context, from, to int64) error {
	f.mu.Lock()
	f.moved[from] = to
	f.mu.Unlock()
	changed, err := f.rules.moved(ctx, from, to)
	for _, rule := range changed {
		f.audit(ctx, "telegram", "forward.rules.move", rule, fmt.Sprintf("chat %d is %d now", from, to))
	}
	return err
}
