package forward

import (
	"fmt"
	"strings"
)

// language is what the bot answers in: that of the sender's client.
type language int

const (
	english language = iota
	chinese
)

func languageOf(code string) language {
	if strings.HasPrefix(strings.ToLower(code), "zh") {
		return chinese
	}
	return english
}

// phrases are what the bot says in one language.
type phrases struct {
	denied       string
	set          func(title string, priority int) string
	usage        func(prefix, command string) string
	usagePrivate func(prefix, command string) string
	unknownLevel func(level string) string
	noRule       func(id int64) string
	help         func(prefix string) string
	list         func([]*Rule) string
}

func texts(l language) phrases {
	if l == chinese {
		return phrases{
			denied: "权限被拒绝：只有管理员可以使用此命令。",
			set: func(title string, priority int) string {
				return fmt.Sprintf("“%s”的优先级已设为 %s，已生效。", title, levelText(priority))
			},
			usage: func(prefix, c string) string {
				return fmt.Sprintf("用法：/%s%s <critical|high|vip|normal|bulk|0-100>", prefix, c)
			},
			usagePrivate: func(prefix, c string) string {
				return fmt.Sprintf("用法：/%s%s <rule_id> <priority>，例如 /%s%s 3 high。/%slist_rules 列出规则。", prefix, c,
					prefix, c, prefix)
			},
			unknownLevel: func(level string) string { return fmt.Sprintf("未知的优先级“%s”。", cut(level, 100)) },
			noRule:       func(id int64) string { return fmt.Sprintf("没有规则 %d。", id) },
			help: func(prefix string) string {
				return strings.ReplaceAll("群组或频道中：/{}set_priority <优先级> 设置本聊天的优先级；/{}vip 或 /{}p 不带参数即 High (50)。\n"+
					"私聊中：/{}vip <rule_id> <priority>。\n/{}list_rules 列出规则。\n优先级：critical=100，high 或 vip=50，normal=10，bulk=0，或 0-100 的数字。",
					"{}", prefix)
			},
			list: func(rules []*Rule) string { return listing(rules, "没有规则。", "已停用") },
		}
	}
	return phrases{
		denied: "permission denied: only administrators may use this command",
		set: func(title string, priority int) string {
			return fmt.Sprintf("The priority of %s is %s now. It is in effect.", title, levelText(priority))
		},
		usage: func(prefix, c string) string {
			return fmt.Sprintf("usage: /%s%s <critical|high|vip|normal|bulk|0-100>", prefix, c)
		},
		usagePrivate: func(prefix, c string) string {
			return fmt.Sprintf(
				"usage: /%s%s <rule_id> <priority>, such as /%s%s 3 high. /%slist_rules lists the rules.", prefix, c,
				prefix, c, prefix)
		},
		unknownLevel: func(level string) string { return fmt.Sprintf("unknown level %q.", cut(level, 100)) },
		noRule:       func(id int64) string { return fmt.Sprintf("There is no rule %d.", id) },
		help: func(prefix string) string {
			return strings.ReplaceAll(
				"In a group or channel: /{}set_priority <level> sets the priority of this chat; /{}vip or /{}p alone mean High (50).\n"+
					"In private: /{}vip <rule_id> <priority>.\n/{}list_rules lists the rules.\n"+
					"Levels: critical=100, high or vip=50, normal=10, bulk=0, or a number from 0 to 100.", "{}", prefix)
		},
		list: func(rules []*Rule) string { return listing(rules, "There are no rules.", "disabled") },
	}
}

// maxListed is how many rules an answer lists; a message of Telegram has 4096 characters.
const maxListed = 30

func listing(rules []*Rule, none, disabled string) string {
	if len(rules) == 0 {
		return none
	}
	var b strings.Builder
	for i, r := range rules {
		if i == maxListed {
			fmt.Fprintf(&b, "… %d", len(rules))
			break
		}
		fmt.Fprintf(&b, "%d: %s → %s, %s", r.ID, r.Source, cut(places(r.Targets), 60), levelText(r.Priority))
		if !r.Enabled {
			b.WriteString(", " + disabled)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func places(ps []Place) string {
	if len(ps) == 0 {
		return "-"
	}
	all := make([]string, len(ps))
	for i, p := range ps {
		all[i] = p.String()
	}
	return strings.Join(all, ", ")
}

// menu is what Telegram's clients offer.
func menu(l language, prefix string) []map[string]string {
	words := [][2]string{
		{"set_priority", "Set the priority of this chat"}, {"vip", "High priority, or the one that is given"},
		{"p", "The same as vip"}, {"list_rules", "List the rules"}, {"help", "Show the commands"},
	}
	if l == chinese {
		words = [][2]string{
			{"set_priority", "设置本聊天的优先级"}, {"vip", "高优先级，或指定的优先级"}, {"p", "同 vip"}, {"list_rules", "列出规则"},
			{"help", "显示命令"},
		}
	}
	all := make([]map[string]string, len(words))
	for i, w := range words {
		all[i] = map[string]string{"command": prefix + w[0], "description": w[1]}
	}
	return all
}
