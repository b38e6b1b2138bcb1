package forward

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/forward/sim"
)

// asked is what somebody types, what the bot answers, and what the priority is then.
type asked struct {
	name     string
	post     sim.Post
	answer   string // contained in it
	priority int    // of the rule afterwards; -1: as it was
}

const (
	group, stranger, owner = source, int64(3001), int64(4001)

	denied, usage, unknown, noSuchRule = "permission denied", "usage: /", "unknown level", "There is no rule"
)

func inGroup() []asked {
	return []asked{
		{"vip", sim.Post{Chat: group, From: sim.Admin, Text: "/vip"},
			"The priority of Group 1 is High (50) now. It is in effect.", 50},
		{"p", sim.Post{Chat: group, From: sim.Admin, Text: "/p"}, "High (50)", 50},
		{"set_priority alone", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority"},
			usage + "set_priority <", -1},
		{"critical", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority critical"}, "Critical (100)", 100},
		{"high", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority high"}, "High (50)", 50},
		{"vip as a level", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority vip"}, "High (50)", 50},
		{"normal", sim.Post{Chat: group, From: sim.Admin, Text: "/vip normal"}, "Normal (10)", 10},
		{"bulk", sim.Post{Chat: group, From: sim.Admin, Text: "/p bulk"}, "Bulk (0)", 0},
		{"number", sim.Post{Chat: group, From: sim.Admin, Text: "/p 42"}, "Priority (42)", 42},
		{"zero", sim.Post{Chat: group, From: sim.Admin, Text: "/p 0"}, "Bulk (0)", 0},
		{"hundred", sim.Post{Chat: group, From: sim.Admin, Text: "/p 100"}, "Critical (100)", 100},
		{"upper case level", sim.Post{Chat: group, From: sim.Admin, Text: "/p NORMAL"}, "Normal (10)", 10},
		{"spaces", sim.Post{Chat: group, From: sim.Admin, Text: "/p    7   "}, "Priority (7)", 7},
		{"name of the bot", sim.Post{Chat: group, From: sim.Admin, Text: "/p@" + sim.BotName + " 8"},
			"Priority (8)", 8},
		{"101", sim.Post{Chat: group, From: sim.Admin, Text: "/p 101"}, unknown, -1},
		{"negative", sim.Post{Chat: group, From: sim.Admin, Text: "/p -1"}, unknown, -1},
		{"fraction", sim.Post{Chat: group, From: sim.Admin, Text: "/p 1.5"}, unknown, -1},
		{"word", sim.Post{Chat: group, From: sim.Admin, Text: "/vip urgent"}, unknown, -1},
		{"two words", sim.Post{Chat: group, From: sim.Admin, Text: "/vip 1 high"}, unknown, -1},
		{"member", sim.Post{Chat: group, From: sim.Member, Text: "/vip"}, denied, -1},
		{"member with a level", sim.Post{Chat: group, From: sim.Member, Text: "/vip high"}, denied, -1},
		{"member with a wrong level", sim.Post{Chat: group, From: sim.Member, Text: "/vip x"}, denied, -1},
		{"stranger", sim.Post{Chat: group, From: stranger, Text: "/vip"}, denied, -1},
		{"owner", sim.Post{Chat: group, From: 4001, Text: "/vip 9"}, "Priority (9)", 9},
		{"anonymous administrator", sim.Post{Chat: group, From: 1087968824, Text: "/vip 11", Extra: map[string]any{
			"sender_chat": map[string]any{"id": group}}}, "Priority (11)", 11},
		{"another channel's name", sim.Post{Chat: group, From: 136817688, Text: "/vip 12", Extra: map[string]any{
			"sender_chat": map[string]any{"id": -5}}}, denied, -1},
		{"Chinese", sim.Post{Chat: group, From: sim.Admin, Text: "/vip", Language: "zh-hans"},
			"“Group 1”的优先级已设为 High (50)，已生效", 50},
		{"Chinese usage", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority", Language: "zh"}, "用法", -1},
		{"Chinese denied", sim.Post{Chat: group, From: sim.Member, Text: "/vip", Language: "zh-tw"}, "权限被拒绝", -1},
		{"rules here", sim.Post{Chat: group, From: sim.Admin, Text: "/list_rules"},
			"1: Group 1 (-1000000000001) → Group 2 (-1000000000002), High (50)", -1},
		{"rules here, member", sim.Post{Chat: group, From: sim.Member, Text: "/list_rules"}, denied, -1},
		{"vip, upper case level", sim.Post{Chat: group, From: sim.Admin, Text: "/vip VIP"}, "High (50)", 50},
		{"leading zeros", sim.Post{Chat: group, From: sim.Admin, Text: "/p 007"}, "Priority (7)", 7},
		{"tab", sim.Post{Chat: group, From: sim.Admin, Text: "/p\t6"}, "Priority (6)", 6},
		{"plus", sim.Post{Chat: group, From: sim.Admin, Text: "/p +5"}, unknown, -1},
		{"too large for a number", sim.Post{Chat: group, From: sim.Admin, Text: "/p 99999999999999999999"},
			unknown, -1},
		{"name of the bot in other letters", sim.Post{Chat: group, From: sim.Admin,
			Text: "/vip@" + strings.ToUpper(sim.BotName)}, "High (50)", 50},
		{"usage with the name of the bot", sim.Post{Chat: group, From: sim.Admin, Text: "/set_priority@" + sim.BotName},
			usage + "set_priority <", -1},
		{"Chinese unknown level", sim.Post{Chat: group, From: sim.Admin, Text: "/vip x", Language: "zh-hans"},
			"未知的优先级“x”", -1},
		{"Chinese rules, member", sim.Post{Chat: group, From: sim.Member, Text: "/list_rules", Language: "zh-hans"},
			"权限被拒绝", -1},
		{"another language", sim.Post{Chat: group, From: sim.Member, Text: "/vip", Language: "de"}, denied, -1},
		{"help", sim.Post{Chat: group, From: sim.Member, Text: "/help"}, "/vip or /p alone mean High (50)", -1},
	}
}

func inPrivate() []asked {
	return []asked{
		{"private", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 1 normal"},
			"The priority of Group 1 is Normal (10) now. It is in effect.", 10},
		{"private number", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/p 1 33"}, "Priority (33)", 33},
		{"private alone", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip"},
			"usage: /vip <rule_id> <priority>", -1},
		{"private without a level", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 1"},
			"<rule_id> <priority>", -1},
		{"private, no number", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip high"},
			"<rule_id> <priority>", -1},
		{"private, three words", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 1 high now"},
			"<rule_id> <priority>", -1},
		{"private, wrong level", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 1 x"}, unknown, -1},
		{"private, unknown rule", sim.Post{Chat: 4001, From: 4001, Text: "/vip 99 high"}, noSuchRule + " 99", -1},
		{"private, unknown rule, nobody", sim.Post{Chat: sim.Member, From: sim.Member, Text: "/vip 99 high"},
			denied, -1},
		{"private, member", sim.Post{Chat: sim.Member, From: sim.Member, Text: "/vip 1 high"}, denied, -1},
		{"private, stranger", sim.Post{Chat: stranger, From: stranger, Text: "/vip 1 high"}, denied, -1},
		{"private, owner", sim.Post{Chat: 4001, From: 4001, Text: "/set_priority 1 vip"}, "High (50)", 50},
		{"private, Chinese", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 1 bulk", Language: "zh-hans"},
			"已生效", 0},
		{"private, Chinese usage", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/p", Language: "zh-hans"},
			"用法：/p <rule_id> <priority>", -1},
		{"private rules, owner", sim.Post{Chat: 4001, From: 4001, Text: "/list_rules"}, "2: News (-5)", -1},
		{"private rules, member", sim.Post{Chat: sim.Member, From: sim.Member, Text: "/list_rules"}, denied, -1},
		{"private, rule 0", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip 0 high"},
			"<rule_id> <priority>", -1},
		{"private, negative rule", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/vip -1 high"},
			"<rule_id> <priority>", -1},
		{"private, name of the bot", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/p@" + sim.BotName + " 1 21"},
			"Priority (21)", 21},
		{"private, 101", sim.Post{Chat: sim.Admin, From: sim.Admin, Text: "/p 1 101"}, unknown, -1},
		{"private, Chinese denied", sim.Post{Chat: sim.Member, From: sim.Member, Text: "/vip 1 high", Language: "zh"},
			"权限被拒绝", -1},
		{"private help", sim.Post{Chat: sim.Member, From: sim.Member, Text: "/help"}, "<rule_id> <priority>", -1},
	}
}

func TestCommands(t *testing.T) {
	r := newRig(t, map[string]any{"admins": []string{"4001"}})
	for _, id := range []int64{stranger, owner} {
		r.api.AddChat(sim.Chat{ID: id, Type: "private", First: "U"})
	}
	r.api.AddChat(sim.Chat{ID: -5, Type: "channel", Title: "News"})
	rule := r.rule(Rule{Source: Place{Chat: group}, Targets: []Place{{Chat: target}}, Priority: normal})
	channel := r.rule(Rule{Source: Place{Chat: -5}, Targets: []Place{{Chat: target}}, Priority: normal})
	r.start()
	for _, c := range append(inGroup(), inPrivate()...) {
		r.ask(t, c.name, c.post, c.answer, rule.ID, c.priority)
	}
	r.ask(t, "channel", sim.Post{Chat: -5, Text: "/vip 77", As: "channel_post"},
		"The priority of News is Priority (77) now", channel.ID, 77)
	r.api.SetMember(group, sim.Admin, "member")
	r.ask(t, "after a demotion", sim.Post{Chat: group, From: sim.Admin, Text: "/vip 99"}, denied, rule.ID, -1)
	// What is no command for this bot is forwarded like any message; a command, and an edit that looks like
	// one, is not.
	for _, text := range []string{"/vip", "/vipx", "/vip@other_bot", "/vip high\nmore"} {
		r.api.Write(sim.Post{Chat: group, From: sim.Member, Text: text})
	}
	r.gets(target, "/vipx", "/vip@other_bot", "/vip high\nmore")
}

// ask gives a command and looks at its answer and effect.
func (r *rig) ask(t *testing.T, name string, post sim.Post, answer string, rule int64, priority int) {
	t.Helper()
	was, _ := r.rules().byID(rule)
	before := len(r.in(post.Chat))
	r.api.Write(post)
	r.await(name+" is answered", func() bool { return len(r.in(post.Chat)) > before })
	if got := r.in(post.Chat)[before]; !strings.Contains(got, answer) {
		t.Errorf("%s: the answer is %q, not %q", name, got, answer)
	}
	if priority < 0 {
		priority = was.Priority
	}
	if now, err := r.rules().byID(rule); err != nil || now.Priority != priority {
		t.Errorf("%s: the priority is %d, not %d (%v)", name, now.Priority, priority, err)
	}
}

func TestAChatWithoutARuleGetsOne(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Admin, Text: "/vip"})
	r.gets(source, "The priority of Group 1 is High (50) now. It is in effect.")
	all := r.rules().all()
	if len(all) != 1 || all[0].Source != (Place{Chat: source}) || all[0].Priority != high || len(all[0].Targets) != 0 ||
		!all[0].Enabled {
		t.Errorf("rules: %+v", all)
	}
}

func TestPrefixedCommands(t *testing.T) {
	r := newRig(t, map[string]any{"command_prefix": "fw_"})
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Admin, Text: "/vip"})
	r.api.Write(sim.Post{Chat: source, From: sim.Admin, Text: "/fw_set_priority"})
	r.gets(target, "/vip")
	r.gets(source, "usage: /fw_set_priority <critical|high|vip|normal|bulk|0-100>")
}
