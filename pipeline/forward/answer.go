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

// phrases are what the bot says in one language, as formats.
type phrases struct {
	denied         string
	set            string // of a title and a level
	usage          string // of the prefix of commands and a command
	usagePrivate   string // the same
	unknownLevel   string // of a text
	noRule         string // of a number
	help           string // of the prefix
	none, disabled string // in a list of rules
}

func texts(l language) phrases {
	if l == chinese {
		return phrases{
			denied:       "权限被拒绝：只有管理员可以使用此命令。",
			set:          "“%s”的优先级已设为 %s，已生效。",
			usage:        "用法：/%s%s <critical|high|vip|normal|bulk|0-100>",
			usagePrivate: "用法：/%[1]s%[2]s <rule_id> <priority>，例如 /%[1]s%[2]s 3 high。/%[1]slist_rules 列出规则。",
			unknownLevel: "未知的优先级“%s”。",
			noRule:       "没有规则 %d。",
			help: "群组或频道中：/%[1]sset_priority <优先级> 设置本聊天的优先级；/%[1]svip 或 /%[1]sp 不带参数即 High (50)。\n" +
				"私聊中：/%[1]svip <rule_id> <priority>。\n/%[1]slist_rules 列出规则。\n" +
				"优先级：critical=100，high 或 vip=50，normal=10，bulk=0，或 0-100 的数字。",
			none: "没有规则。", disabled: "已停用",
		}
	}
	return phrases{
		denied:       "permission denied: only administrators may use this command",
		set:          "The priority of %s is %s now. It is in effect.",
		usage:        "usage: /%s%s <critical|high|vip|normal|bulk|0-100>",
		usagePrivate: "usage: /%[1]s%[2]s <rule_id> <priority>, such as /%[1]s%[2]s 3 high. /%[1]slist_rules lists the rules.",
		unknownLevel: "unknown level %q.",
		noRule:       "There is no rule %d.",
		help: "In a group or channel: /%[1]sset_priority <level> sets the priority of this chat; " +
			"/%[1]svip or /%[1]sp alone mean High (50).\n" +
			"In private: /%[1]svip <rule_id> <priority>.\n/%[1]slist_rules lists the rules.\n" +
			"Levels: critical=100, high or vip=50, normal=10, bulk=0, or a number from 0 to 100.",
		none: "There are no rules.", disabled: "disabled",
	}
}

// maxListed is how many rules an answer lists; a message of Telegram has 4096 characters.
const maxListed = 30

// list lists rules. named returns a place as it is shown.
func (say *phrases) list(rules []*Rule, named func(Place) string) string {
	if len(rules) == 0 {
		return say.none
	}
	var b strings.Builder
	for i, r := range rules {
		if i == maxListed {
			fmt.Fprintf(&b, "… %d", len(rules))
			break
		}
		fmt.Fprintf(&b, "%d: %s → %s, %s", r.ID, named(r.Source), cut(listed(r.Targets, named), 120),
			levelText(r.Priority))
		if !r.Enabled {
			b.WriteString(", " + say.disabled)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func places(ps []Place) string { return listed(ps, Place.String) }

func listed(ps []Place, named func(Place) string) string {
	if len(ps) == 0 {
		return "-"
	}
	all := make([]string, len(ps))
	for i, p := range ps {
		all[i] = named(p)
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
