package wecom

import (
	"slices"

	"github.com/pawl-dev/pawl"
)

// The kinds of failure of calls to WeCom. They select rows of the policy.
const (
	KindBusy        pawl.Kind = "WecomBusy"        // WeCom says that it is busy
	KindAway        pawl.Kind = "WecomAway"        // WeCom cannot be reached, or gives no answer
	KindThrottled   pawl.Kind = "WecomThrottled"   // a limit of WeCom is reached
	KindConfig      pawl.Kind = "WecomConfig"      // nothing works until a person changes something
	KindAccount     pawl.Kind = "WecomAccount"     // the customer-service account is not there
	KindBudget      pawl.Kind = "WecomBudget"      // five messages were sent since the customer's last one
	KindWindow      pawl.Kind = "WecomWindow"      // the customer's last message is older than 48 hours
	KindSession     pawl.Kind = "WecomSession"     // the session is not with the assistant
	KindContent     pawl.Kind = "WecomContent"     // the reply itself is refused
	KindContact     pawl.Kind = "WecomContact"     // the customer cannot be written to
	KindToken       pawl.Kind = "WecomToken"       // an access token is not valid, though it was just fetched
	KindUnknownCode pawl.Kind = "WecomUnknownCode" // a code that is in no table
)

// action is what is done about a code.
type action uint8

const (
	refuse  action = iota // no repetition will help
	again                 // after a while
	refresh               // with another access token
	wait                  // until the window of the limit is over
	slower                // with fewer calls at once
	stop                  // the pipeline is paused
	park                  // the account is left alone until it rings
	untoken               // without the token of the doorbell
)

// errcode is a row of the table of codes that WeCom answers with.
type errcode struct {
	code    int
	kind    pawl.Kind
	class   string // of a reply, for `pawl wecom replies ls`
	action  action
	meaning string
}

// errcodes is the table, which nobody changes.
var errcodes = []errcode{
	{-1, KindBusy, "busy", again, "the system is busy"},
	{40001, KindConfig, "config", stop, "the secret is wrong"},
	{40013, KindConfig, "config", stop, "corp_id is wrong"},
	{40014, KindToken, "token", refresh, "the access token is not valid"},
	{40096, KindContact, "contact", refuse, "the user id of the customer is wrong"},
	{41001, KindConfig, "config", stop, "the access token is missing"},
	{42001, KindToken, "token", refresh, "the access token has expired"},
	{45009, KindThrottled, "throttle", wait, "the limit of calls is reached"},
	{45033, KindThrottled, "throttle", slower, "too many calls at once"},
	{48002, KindConfig, "config", stop, "the application may not call this API"},
	{48007, KindConfig, "config", stop, "the application may not manage this account"},
	{60020, KindConfig, "config", stop, "the address of this host is not among the trusted ones"},
	{84061, KindContact, "contact", refuse, "there is no relation to the customer"},
	{95000, KindAccount, "account", park, "the id of the account is wrong"},
	{95001, KindBudget, "budget_used", refuse, "five messages were sent since the customer's last one"},
	{95002, KindWindow, "window_closed", refuse, "the customer's last message is older than 48 hours"},
	{95003, KindSession, "session_state", refuse, "the limit of consultations is reached"},
	{95004, KindAccount, "account", park, "there is no such account"},
	{95007, KindToken, "token", untoken, "the token of the callback is wrong or has expired"},
	{95008, KindContent, "content", refuse, "the menu has more than ten items"},
	{95009, KindContent, "content", refuse, "the type of a menu item is wrong"},
	{95011, KindConfig, "config", stop, "the edition of the customer service does not have this API"},
	{95012, KindConfig, "config", stop, "the edition of the customer service does not have this API"},
	{95013, KindSession, "session_state", refuse, "the session has ended"},
	{95014, KindSession, "session_state", refuse, "the member is not a servicer of the account"},
	{95016, KindSession, "session_state", refuse, "the session cannot change to that state"},
	{95017, KindConfig, "config", stop, "the API is switched off, or given to another application"},
	{95018, KindSession, "session_state", refuse, "the state of the session does not allow to send"},
	{95019, KindSession, "session_state", refuse, "the servicer does not take customers"},
	{95023, KindConfig, "config", stop, "the API is given to another application"},
	{95030, KindContent, "content", refuse, "this type of message is forbidden"},
	{95031, KindWindow, "window_closed", refuse, "the customer's last message is older than 48 hours"},
}

// rowOf is the row of a code; its code is 0 if there is none.
func rowOf(code int) (row errcode) {
	if i := slices.IndexFunc(errcodes, func(row errcode) bool { return row.code == code }); i >= 0 {
		row = errcodes[i]
	}
	return row
}

// failClasses say why a message that WeCom took did not reach the customer, by the fail_type of msg_send_fail.
var failClasses = map[int]string{1: "account", 2: "config", 4: "window_closed", 5: "session_state", 6: "budget_used",
	7: "config", 8: "config", 9: "config", 10: "contact", 11: "session_state", 12: "content"}
