package forward

import (
	"regexp"
	"strings"
)

// command is a command of a chat, as it was typed.
type command struct {
	name string // set_priority (vip and p are the same), list_rules, help
	as   string // what was typed: vip, p …
	arg  string
}

// parser reads commands. It knows the name of the bot and the prefix of its commands.
type parser struct {
	prefix  string
	bot     string
	pattern *regexp.Regexp
}

// newParser makes a parser: ^/(set_priority|vip|p)(?:\s+(.+))?$ with the prefix before the name and @bot behind it.
func newParser(prefix, bot string) *parser {
	return &parser{prefix: prefix, bot: bot, pattern: regexp.MustCompile(
		`^/` + regexp.QuoteMeta(prefix) + `(set_priority|vip|p|list_rules|help)(?:@(\w+))?(?:\s+(.+))?$`)}
}

// parse reads a command for this bot. A text that is none, or one for another bot, is an ordinary message.
func (p *parser) parse(text string) (c command, ok bool) {
	m := p.pattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || m[2] != "" && !strings.EqualFold(m[2], p.bot) {
		return c, false
	}
	c = command{name: m[1], as: m[1], arg: m[3]}
	if c.as == "vip" || c.as == "p" {
		c.name = "set_priority"
	}
	return c, true
}
