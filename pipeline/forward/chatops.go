package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// person is the sender of a command: a user, or a chat that writes in its own name.
type person struct {
	id       int64
	language language
	// asChat: an administrator who writes anonymously, or a post of a channel, which only administrators write.
	asChat bool
}

func author(m *message) person {
	switch {
	case m.SenderChat != nil && m.SenderChat.ID == m.Chat.ID, m.From == nil:
		return person{id: m.Chat.ID, asChat: m.SenderChat == nil || m.SenderChat.ID == m.Chat.ID}
	case m.SenderChat != nil: // a post of another channel, or of a user in the name of a channel
		return person{id: m.SenderChat.ID}
	}
	return person{id: m.From.ID, language: languageOf(m.From.LanguageCode)}
}

// by is the person as rules and the audit name it.
func (p person) by() string { return fmt.Sprintf("telegram:%d", p.id) }

// command carries out a command. The answer goes out with the ack; what changes is stored before.
func (f *forwarder) command(ctx context.Context, d *pawl.Delivery, m *message, c command) error {
	text, err := f.obey(ctx, m, c, author(m))
	if err != nil {
		return err
	}
	f.figs.commands.Add(1, f.env.Name, c.name)
	f.answer(d, m, text)
	return nil
}

func (f *forwarder) obey(ctx context.Context, m *message, c command, p person) (string, error) {
	say := texts(p.language)
	switch {
	case c.name == "help":
		return fmt.Sprintf(say.help, f.prefix), nil
	case c.name == "list_rules":
		return f.listRules(ctx, m, p)
	case m.Chat.private():
		return f.setPrivately(ctx, c, p)
	}
	may, err := f.may(ctx, m.Chat.ID, p)
	if err != nil || !may {
		return say.denied, err
	}
	level := c.arg
	if level == "" && c.as != "set_priority" {
		level = "vip"
	}
	if level == "" {
		return fmt.Sprintf(say.usage, f.prefix, c.as), nil
	}
	priority, ok := parseLevel(strings.TrimSpace(level))
	if !ok {
		return fmt.Sprintf(say.unknownLevel+" "+say.usage, cut(level, 100), f.prefix, c.as), nil
	}
	if err := f.setHere(ctx, Place{m.Chat.ID, m.topic()}, priority, p); err != nil {
		return "", err
	}
	return fmt.Sprintf(say.set, title(&m.Chat), levelText(priority)), nil
}

// may reports whether a person may change the rules of a chat. Telegram is asked each time, so that a demotion takes
// effect at once.
func (f *forwarder) may(ctx context.Context, chat int64, p person) (bool, error) {
	if slices.Contains(f.admins, p.id) || p.asChat && p.id == chat {
		return true, nil
	}
	if p.id == 0 || p.asChat {
		return false, nil
	}
	m, err := f.api.member(ctx, chat, p.id)
	if e := asAPI(err); e != nil {
		switch {
		case e.Code == 429:
			return false, pawl.Release(max(e.RetryAfter, time.Second), err.Error())
		case e.Code < 500:
			return false, nil // not a member, or the bot may not know
		}
	}
	if err != nil {
		return false, pawl.OfKind(KindTelegram, err)
	}
	return m.admin(), nil
}

// setHere sets the priority of the rule of a place, and makes one if there is none.
func (f *forwarder) setHere(ctx context.Context, at Place, priority int, p person) error {
	for {
		rule := f.rules.of(at)
		if rule != nil {
			return f.setPriority(ctx, rule.ID, priority, p)
		}
		made, err := f.rules.add(ctx, Rule{
			Source: Place{Chat: at.Chat}, Targets: []Place{}, Filters: []string{}, Priority: priority,
			Mode: modeForward, Enabled: true,
		}, p.by())
		if conflict(err) { // another process was quicker
			if err := f.rules.refresh(ctx); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			f.audit(ctx, p.by(), "forward.rules.add", made, fmt.Sprintf("priority none -> %d", priority))
		}
		return err
	}
}

func (f *forwarder) setPriority(ctx context.Context, id int64, priority int, p person) error {
	old, now, err := f.rules.change(ctx, id, p.by(), func(r *Rule) error { r.Priority = priority; return nil })
	if err == nil {
		f.audit(ctx, p.by(), "forward.rules.set", now, fmt.Sprintf("priority %d -> %d", old.Priority, now.Priority))
	}
	return err
}

// setPrivately is the form with the number of a rule.
func (f *forwarder) setPrivately(ctx context.Context, c command, p person) (string, error) {
	say := texts(p.language)
	usage := fmt.Sprintf(say.usagePrivate, f.prefix, c.as)
	number, level, leveled := strings.Cut(strings.Join(strings.Fields(c.arg), " "), " ")
	id, err := ruleNumber(number)
	if err != nil || strings.Contains(level, " ") {
		return usage, nil
	}
	rule, err := f.rules.byID(id)
	may := slices.Contains(f.admins, p.id)
	if err == nil && !may {
		if may, err = f.may(ctx, rule.Source.Chat, p); err != nil {
			return "", err
		}
	}
	switch {
	case !may:
		return say.denied, nil
	case errors.Is(err, errNoRule):
		return fmt.Sprintf(say.noRule, id), nil
	case !leveled:
		return usage, nil
	}
	priority, ok := parseLevel(level)
	if !ok {
		return fmt.Sprintf(say.unknownLevel, cut(level, 100)) + " " + usage, nil
	}
	if err := f.setPriority(ctx, id, priority, p); err != nil {
		if errors.Is(err, errNoRule) {
			return fmt.Sprintf(say.noRule, id), nil
		}
		return "", err
	}
	return fmt.Sprintf(say.set, f.titleOf(ctx, rule.Source.Chat), levelText(priority)), nil
}

// titleOf asks for the title of a chat. Without an answer its number has to do.
func (f *forwarder) titleOf(ctx context.Context, id int64) string {
	c, err := f.api.chat(ctx, id)
	if err != nil {
		c = chat{ID: id}
	}
	return title(&c)
}

// titles shows places by title and number, as long as not too many chats have to be asked for.
func (f *forwarder) titles(ctx context.Context) func(Place) string {
	known := map[int64]string{}
	return func(p Place) string {
		name, ok := known[p.Chat]
		if !ok && len(known) < maxAsked {
			if name = f.titleOf(ctx, p.Chat); name == fmt.Sprint(p.Chat) {
				name = ""
			}
			known[p.Chat] = name
		}
		if name == "" {
			return p.String()
		}
		return fmt.Sprintf("%s (%s)", cut(name, 40), p)
	}
}

func title(c *chat) string {
	if name := c.name(); name != "" {
		return name
	}
	return fmt.Sprint(c.ID)
}

// maxAsked is for how many rules Telegram is asked whether the person is an administrator of their
// source, and for how many chats what they are called.
const maxAsked = 20

// listRules lists the rules of a chat, or in private those that one may change.
func (f *forwarder) listRules(ctx context.Context, m *message, p person) (string, error) {
	say := texts(p.language)
	all, owner := f.rules.all(), slices.Contains(f.admins, p.id)
	if !m.Chat.private() {
		may, err := f.may(ctx, m.Chat.ID, p)
		if err != nil || !may {
			return say.denied, err
		}
		all = slices.DeleteFunc(all, func(r *Rule) bool { return r.Source.Chat != m.Chat.ID })
		return say.list(all, f.titles(ctx)), nil
	}
	if owner {
		return say.list(all, f.titles(ctx)), nil
	}
	var mine []*Rule
	for _, rule := range all[:min(len(all), maxAsked)] {
		may, err := f.may(ctx, rule.Source.Chat, p)
		if err != nil {
			return "", err
		}
		if may {
			mine = append(mine, rule)
		}
	}
	if len(mine) == 0 {
		return say.denied, nil
	}
	return say.list(mine, f.titles(ctx)), nil
}
