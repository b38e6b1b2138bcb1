package forward

import "testing"

func TestParseCommands(t *testing.T) {
	plain, prefixed := newParser("", "my_bot"), newParser("fw_", "my_bot")
	for _, c := range []struct {
		p         *parser
		text      string
		name, as  string
		arg       string
		isCommand bool
	}{
		{plain, "/vip", "set_priority", "vip", "", true},
		{plain, "/p", "set_priority", "p", "", true},
		{plain, "/set_priority", "set_priority", "set_priority", "", true},
		{plain, "/vip high", "set_priority", "vip", "high", true},
		{plain, "/vip   3 high", "set_priority", "vip", "3 high", true},
		{plain, " /vip ", "set_priority", "vip", "", true},
		{plain, "/vip@my_bot", "set_priority", "vip", "", true},
		{plain, "/vip@MY_BOT 7", "set_priority", "vip", "7", true},
		{plain, "/vip@other_bot", "", "", "", false},
		{plain, "/vip@", "", "", "", false},
		{plain, "/vipx", "", "", "", false},
		{plain, "/VIP", "", "", "", false},
		{plain, "/p10", "", "", "", false},
		{plain, "vip", "", "", "", false},
		{plain, "a /vip", "", "", "", false},
		{plain, "/fw_vip", "", "", "", false},
		{plain, "/vip high\nand more", "", "", "", false},
		{plain, "/vip\thigh", "set_priority", "vip", "high", true},
		{plain, "/list_rules", "list_rules", "list_rules", "", true},
		{plain, "/help@my_bot", "help", "help", "", true},
		{plain, "/start", "", "", "", false},
		{plain, "", "", "", "", false},
		{prefixed, "/fw_vip high", "set_priority", "vip", "high", true},
		{prefixed, "/fw_p@my_bot 3", "set_priority", "p", "3", true},
		{prefixed, "/vip", "", "", "", false},
		{prefixed, "/fw_fw_vip", "", "", "", false},
	} {
		got, ok := c.p.parse(c.text)
		if ok != c.isCommand || got != (command{c.name, c.as, c.arg}) {
			t.Errorf("%q is %+v, %v", c.text, got, ok)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]int{
		"critical": 100, "high": 50, "vip": 50, "VIP": 50, "normal": 10, "Bulk": 0, "0": 0, "100": 100,
		"42": 42, "007": 7,
		"": -1, "101": -1, "-1": -1, "+5": -1, "5.5": -1, "1e1": -1, "urgent": -1, "99999999999999999999": -1,
	} {
		got, ok := parseLevel(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, ok, want)
		}
	}
}
