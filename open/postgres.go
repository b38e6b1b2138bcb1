package open

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
)

// postgresIdentity is the server, database and schema of a URL.
func postgresIdentity(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	options := u.Query()
	host := cmp.Or(options.Get("host"), u.Hostname())
	port := cmp.Or(options.Get("port"), u.Port(), "5432")
	name := cmp.Or(options.Get("dbname"), strings.Trim(u.Path, "/"), u.User.Username())
	schema := cmp.Or(options.Get(optionSchema), "pawl")
	return strings.Join([]string{"postgres", strings.ToLower(host), port, name, schema}, " ")
}

// postgresPlain looks at the host and at sslmode, whose default falls back to plaintext.
func postgresPlain(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	options := u.Query()
	host := cmp.Or(options.Get("host"), u.Hostname())
	if ip := net.ParseIP(host); host == "" || host == "localhost" || strings.HasPrefix(host, "/") ||
		ip != nil && ip.IsLoopback() {
		return ""
	}
	switch mode := cmp.Or(options.Get("sslmode"), "prefer"); mode {
	case "disable":
		return "sslmode=disable sends passwords and messages to " + host + " as plaintext"
	case "allow", "prefer":
		return "sslmode=" + mode + " sends passwords and messages to " + host +
			" as plaintext where the server, or whoever answers in its place, offers no TLS"
	}
	return ""
}

// Options of a PostgreSQL URL that are ours, not the driver's.
const (
	optionSchema   = "pawl_schema"
	optionMaxConns = "pawl_max_conns"
	optionPollOnly = "pawl_poll_only"
)

// postgresConfig reads postgres://…, with our own options taken out.
func postgresConfig(text string) (postgres.Config, error) {
	config := postgres.Config{URL: text}
	base, query, hasQuery := strings.Cut(text, "?")
	if !hasQuery {
		return config, nil
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return config, urlError("the options after ? cannot be parsed")
	}
	config.Schema = take(options, optionSchema)
	if v := take(options, optionPollOnly); v != "" {
		if config.PollOnly, err = strconv.ParseBool(v); err != nil {
			return config, urlError("%s is %q, not true or false", optionPollOnly, v)
		}
	}
	if n := take(options, optionMaxConns); n != "" {
		if config.MaxConns, err = strconv.Atoi(n); err != nil {
			return config, urlError("%s is %q, not a number", optionMaxConns, n)
		}
	}
	config.URL = base
	if len(options) > 0 {
		config.URL += "?" + options.Encode()
	}
	return config, nil
}

func checkPostgres(c Config) error {
	config, err := postgresConfig(c.URL)
	if err != nil {
		return err
	}
	return config.Check()
}

func openPostgres(ctx context.Context, c Config) (store.Store, error) {
	config, err := postgresConfig(c.URL)
	if err != nil {
		return nil, err
	}
	config.AutoMigrate, config.NoCheck, config.Look = c.AutoMigrate, c.NoCheck, c.Look
	return postgres.Open(ctx, config)
}
