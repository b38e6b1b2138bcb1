package forward

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How messages reach their targets.
const (
	modeForward = "forward" // with the name of who wrote them
	modeCopy    = "copy"    // as the bot's own
)

// The named levels of priority.
const (
	critical = 100
	high     = 50
	normal   = 10
	bulk     = 0
)

// Rule says where the messages of a source are sent.
type Rule struct {
	ID       int64    `json:"id"`
	Source   Place    `json:"source"`
	Targets  []Place  `json:"targets"`
	Priority int      `json:"priority"`
	Mode     string   `json:"mode"`
	Filters  []string `json:"filters"`
	Replace  []string `json:"replace,omitempty"`
	Enabled  bool     `json:"enabled"`
	// Disabled are targets that refuse the bot. Nothing is sent there until the rule's targets are set again.
	Disabled []Place `json:"disabled_targets,omitempty"`
	// Former has, by number, the first number of chats that became supergroups. Lanes keep it, so that what was queued
	// before a chat moved stays before what comes after.
	Former    map[int64]int64 `json:"former_numbers,omitempty"`
	UpdatedBy string          `json:"updated_by"`
	UpdatedAt time.Time       `json:"updated_at"`

	filters filters
	replace []replacement
	version int64 // of its entry in the store
}

// prepare compiles what is text in a rule, and says everything that is wrong with it.
func (r *Rule) prepare() error {
	var errs []error
	var err error
	if r.filters, err = parseAll("filter", r.Filters, parseFilter); err != nil {
		errs = append(errs, err)
	}
	if r.replace, err = parseAll("replacement", r.Replace, parseReplacement); err != nil {
		errs = append(errs, err)
	}
	if r.Mode != modeForward && r.Mode != modeCopy {
		errs = append(errs, fmt.Errorf("mode %q: it is %s or %s", r.Mode, modeForward, modeCopy))
	}
	if len(r.Replace) > 0 && r.Mode != modeCopy {
		errs = append(errs, errors.New("a replacement needs the mode copy: what is forwarded stays as it was written"))
	}
	if r.Priority < bulk || r.Priority > critical {
		errs = append(errs, fmt.Errorf("priority %d: it goes from 0 to 100", r.Priority))
	}
	if slices.Contains(r.Targets, r.Source) {
		errs = append(errs, fmt.Errorf("%s is its own target", r.Source))
	}
	return errors.Join(errs...)
}

func (r *Rule) clone() *Rule {
	c := *r
	c.Targets, c.Disabled, c.Former = slices.Clone(r.Targets), slices.Clone(r.Disabled), maps.Clone(r.Former)
	return &c
}

// move gives a chat that became a supergroup its new number.
func (r *Rule) move(from, to int64) {
	at := func(p Place) Place {
		if p.Chat == from {
			p.Chat = to
		}
		return p
	}
	r.Source = at(r.Source)
	for _, places := range [][]Place{r.Targets, r.Disabled} {
		for i := range places {
			places[i] = at(places[i])
		}
	}
	r.Targets = slices.Compact(r.Targets)
	if r.Former == nil {
		r.Former = map[int64]int64{}
	}
	r.Former[to] = cmp.Or(r.Former[from], from)
}

// lane is the key of what the rule sends to a target. The priority belongs to it: a message of a higher one overtakes
// others between the same two chats.
func (r *Rule) lane(to Place) string {
	from := cmp.Or(r.Former[r.Source.Chat], r.Source.Chat)
	to.Chat = cmp.Or(r.Former[to.Chat], to.Chat)
	return fmt.Sprintf("%d>%s#%d", from, to, r.Priority)
}

// off reports whether a target of the rule is disabled. A chat is, with all its topics.
func (r *Rule) off(p Place) bool {
	return slices.ContainsFunc(r.Disabled, func(d Place) bool { return d == p || d == Place{Chat: p.Chat} })
}

// Place is a chat, or a topic in one: -100123/5 in JSON and on the command line.
type Place struct{ Chat, Thread int64 }

func (p Place) String() string {
	if p.Thread == 0 {
		return strconv.FormatInt(p.Chat, 10)
	}
	return fmt.Sprintf("%d/%d", p.Chat, p.Thread)
}

// MarshalText implements encoding.TextMarshaler.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Place) UnmarshalText(b []byte) (err error) {
	*p, err = parsePlace(string(b))
	return err
}

func parsePlace(s string) (p Place, err error) {
	name, thread, topic := strings.Cut(s, "/")
	p.Chat, err = strconv.ParseInt(name, 10, 64)
	if err == nil && topic {
		p.Thread, err = strconv.ParseInt(thread, 10, 64)
	}
	if err != nil || p.Chat == 0 || topic && p.Thread <= 0 {
		return Place{}, fmt.Errorf("%q is not a chat: it is a number such as -1001234567890, or CHAT/THREAD", s)
	}
	return p, nil
}

// levels are the named priorities, the highest first.
var levels = []struct {
	name     string
	priority int
}{{"Critical", critical}, {"High", high}, {"VIP", high}, {"Normal", normal}, {"Bulk", bulk}}

// parseLevel reads a level: a name, whatever its case, or a number from 0 to 100.
func parseLevel(s string) (int, bool) {
	for _, l := range levels {
		if strings.EqualFold(l.name, s) {
			return l.priority, true
		}
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= bulk && n <= critical
}

// class names a priority in metrics: by the highest level that it reaches.
func class(priority int) string {
	for _, l := range levels {
		if priority >= l.priority {
			return strings.ToLower(l.name)
		}
	}
	return "bulk"
}

// levelText is a priority as answers and listings show it: High (50).
func levelText(priority int) string {
	for _, l := range levels {
		if priority == l.priority {
			return fmt.Sprintf("%s (%d)", l.name, priority)
		}
	}
	return fmt.Sprintf("Priority (%d)", priority)
}
