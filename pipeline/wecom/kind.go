package wecom

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// Name is the kind of these pipelines in the configuration.
const Name = "wecom"

// What messages are called by default.
const (
	defaultTopic = "qywx-chat-messages"
	defaultDead  = "qywx-dead-letter-queue"
	defaultGroup = "qywx-consumers"
)

// Profiles of topics in Kafka.
const (
	development = "development"
	production  = "production"
)

// Kind is the kind of these pipelines.
func Kind() pipeline.Kind { return KindWith(nil) }

// KindWith is the kind with a handler in Go. A section names no handler then.
func KindWith(h Handler) pipeline.Kind {
	return pipeline.Kind{
		Name: Name, Summary: "customer-service messages of WeCom, in order, answered once",
		Fields: fields(), Rules: rules(), Check: checkWith(h), New: buildWith(h), Doctor: doctor, Commands: commands(),
	}
}

func fields() []pipeline.Field {
	return []pipeline.Field{
		{Name: "corp_id", Required: true, Doc: "The id of the corporation."},
		{Name: "secret", Required: true, Secret: true, Doc: "The secret of the application."},
		{Name: "token", Required: true, Secret: true, Doc: "The Token of the callback."},
		{Name: "encoding_aes_key", Required: true, Secret: true, Doc: "The EncodingAESKey of the callback.",
			Check: checkKey},
		{Name: "api_url", Type: pipeline.URL, Default: "https://qyapi.weixin.qq.com", Doc: "Where the API is.",
			Check: pipeline.CheckBase},
		{Name: "listen", Default: "127.0.0.1:9120", Doc: "The address of the callback.", Check: pipeline.CheckAddress},
		{Name: "path", Default: "/wecom/callback", Doc: "The path of the callback.", Check: pipeline.CheckPath},
		{Name: "timestamp_window", Type: pipeline.Duration, Default: "10m",
			Doc: "Older or newer callbacks are refused. 0 takes all."},
		{
			Name: "reconcile", Type: pipeline.Duration, Default: "3m", Min: int64(time.Second),
			Max: int64(24 * time.Hour),
			Doc: "How often all accounts are pulled, whether they rang or not.",
		},
		{Name: "accounts", Type: pipeline.Texts, DefaultDoc: "those that WeCom lists, and those that rang",
			Doc: "The customer-service accounts."},
		{Name: "messages", Type: pipeline.Object, Doc: "Where messages go.", Fields: []pipeline.Field{
			{Name: "store", Type: pipeline.StoreURL, DefaultDoc: "the daemon's store", Doc: "The URL of their store."},
			{Name: "topic", Default: defaultTopic, Doc: "Their topic.", Check: pipeline.CheckTopic},
			{Name: "dead_letter_topic", Default: defaultDead, Doc: "The topic of their dead letters, in Kafka.",
				Check: pipeline.CheckTopic},
			{Name: "group", Default: defaultGroup, Doc: "The consumer group, in Kafka.",
				Check: pipeline.CheckForm(`[A-Za-z0-9._-]{1,249}`, "must be 1 to 249 of A-Z a-z 0-9 . _ -")},
			{Name: "fallback", Type: pipeline.StoreURL, DefaultDoc: "none",
				Doc: "The URL of a store for messages that the first one does not accept."},
			{
				Name: "profile", Type: pipeline.Choice, Choices: []string{development, production},
				Default: development,
				Doc:     "How topics are created in Kafka: 4 partitions and 1 replica, or 12 and 3.",
			},
		}},
		{Name: "handler", Type: pipeline.Object, Doc: "Who answers: one of http, exec and pipe.",
			Fields: []pipeline.Field{
				{Name: "http", Type: pipeline.URL, Check: pipeline.CheckHTTP,
					Doc: "The URL that envelopes are posted to; the answer is the body of the reply."},
				{Name: "exec", Raw: true,
					Doc: "A command that is started for every message; the answer is what it writes to stdout."},
				{Name: "pipe", Raw: true,
					Doc: "A command that is kept running; the answer is the member output of its verdict."},
				{Name: "timeout", Type: pipeline.Duration, Default: "30s", Min: int64(time.Second),
					Max: int64(time.Hour), Doc: "How long an answer may take."},
				{Name: "signing_key", Secret: true, DefaultDoc: "nothing is signed",
					Doc: "The key of the header Pawl-Signature, over http."},
			}},
		{Name: "concurrency", Type: pipeline.Int, Default: "64", Min: 1, Max: 10_000,
			Doc: "Users who are served at once."},
		{
			Name: "duplicate_msgid_errcodes", Type: pipeline.Texts,
			Check: pipeline.CheckForm(`-?[0-9]{1,9}`, "must be numbers"),
			Doc:   "Error codes of WeCom that mean that it already has a message with this msgid. They are not documented; if the code is in no table, a repeated call counts as sent, too.",
		},
	}
}

func checkKey(s string) error {
	_, err := parseKey(s)
	return err
}

// handlerKeys are the ways to name a handler.
func handlerKeys() []string { return []string{"http", "exec", "pipe"} }

func checkWith(h Handler) func(string, pipeline.Section) []pipeline.Fault {
	return func(name string, s pipeline.Section) []pipeline.Fault {
		var faults []pipeline.Fault
		fault := func(is bool, path, why string) {
			if is {
				faults = append(faults, pipeline.Fault{Path: path, Why: why})
			}
		}
		given := slices.DeleteFunc(handlerKeys(), func(key string) bool { return s.Section("handler").Text(key) == "" })
		if h == nil && len(given) != 1 {
			faults = append(faults, pipeline.Fault{Path: "handler", Why: "needs exactly one of http, exec and pipe",
				Hint: "handler: {http: http://127.0.0.1:8081/message}"})
		}
		if len(given) > 0 && given[0] == "http" {
			_, err := newWebhook(s.Section("handler").Text("http"), "", 0)
			fault(err != nil, "handler.http", "must be a URL like http://127.0.0.1:8081/message")
		}
		m := s.Section("messages")
		topic := m.Text("topic")
		fault(topic == m.Text("dead_letter_topic"), "messages.dead_letter_topic", "must be another topic than messages.topic")
		fault(m.Text("fallback") != "" && m.Text("store") == "", "messages.fallback",
			"is there, but messages.store is not: the daemon's store needs none")
		for _, stage := range []string{stagePull, stageReplies} {
			for _, key := range []string{"topic", "dead_letter_topic"} {
				fault(m.Text(key) == name+"."+stage, "messages."+key, "is the name of the stage "+stage)
			}
		}
		return faults
	}
}

// fallbackAfter is how long brokers may take to store a message before it goes to the fallback, where it arrives at
// most ten seconds after they stop answering.
const fallbackAfter = "7s"

// messagesURL is the URL of the store of the messages with what the section says about it.
func messagesURL(m pipeline.Section) string {
	text := m.Text("store")
	var options []string
	option := func(name, value string) {
		if !strings.Contains(text, "?"+name+"=") && !strings.Contains(text, "&"+name+"=") {
			options = append(options, name+"="+escape(value))
		}
	}
	if scheme, _, _ := strings.Cut(text, ":"); strings.EqualFold(scheme, "kafka") {
		option("group", m.Text("group"))
		option("dead_names", m.Text("topic")+":"+m.Text("dead_letter_topic"))
		option("profile", m.Text("profile"))
	}
	if f := m.Text("fallback"); f != "" {
		option("fallback", f)
		option("patience", fallbackAfter)
	}
	if len(options) == 0 {
		return text
	}
	mark := "?"
	if strings.Contains(text, "?") {
		mark = "&"
	}
	return text + mark + strings.Join(options, "&")
}
