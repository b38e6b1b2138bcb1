package open

import (
	"cmp"
	"context"
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

// Options of a PostgreSQL URL that are ours, not the driver's.
const (
	optionSchema   = "pawl_schema"
	optionMaxConns = "pawl_max_conns"
	optionPollOnly = "pawl_poll_only"
)

// openPostgres opens postgres://…, with our own options taken out.
func openPostgres(ctx context.Context, c Config) (store.Store, error) {
	config := postgres.Config{URL: c.URL, AutoMigrate: c.AutoMigrate, NoCheck: c.NoCheck}
	base, query, hasQuery := strings.Cut(c.URL, "?")
	if hasQuery {
		options, err := url.ParseQuery(query)
		if err != nil {
			return nil, urlError("the options after ? cannot be parsed")
		}
		config.Schema = take(options, optionSchema)
		config.PollOnly = take(options, optionPollOnly) == "true"
		if n := take(options, optionMaxConns); n != "" {
			if config.MaxConns, err = strconv.Atoi(n); err != nil {
				return nil, urlError("%s is %q, not a number", optionMaxConns, n)
			}
		}
		config.URL = base
		if len(options) > 0 {
			config.URL += "?" + options.Encode()
		}
	}
	return postgres.Open(ctx, config)
}
