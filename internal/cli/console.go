package cli

import (
	"crypto/rand"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/serve"
)

func (s *session) console() *cobra.Command {
	listen, readOnly, noOpen := "", false, false
	c := &cobra.Command{
		Use: "console", Short: "Open the web console of a store", Args: count(0, 0, "flags only"),
		Long: `Serves the web console of a store for one person on this machine: what happens, why, and
what to do about it. It prints a link that works once, and opens it in the browser. The
console of a daemon that serves the API is below /console/ there: docs/console.md.`,
		Example: `  pawl console                        # runs until it is stopped
  pawl console --read-only --no-open  # runs until it is stopped`,
		RunE: func(c *cobra.Command, _ []string) error {
			read := func() (config.Source, error) { return s.source(s.configPath) }
			src, err := read()
			if err != nil {
				return err
			}
			conf, err := s.load(src)
			if err != nil {
				return err
			}
			secret, role := rand.Text(), api.Admin
			if readOnly {
				role = api.Viewer
			}
			conf.API = config.API{Listen: listen, Tokens: []config.APIToken{{Name: s.who(), Token: secret, Role: role}}}
			conf.Console.Enabled, conf.Console.ReadOnly = true, conf.Console.ReadOnly || readOnly
			return s.runAPI(c.Context(), conf, nil, false, func(d *serve.Door) {
				link := d.Link(secret)
				_, _ = fmt.Fprintln(s.Out, link)
				if !noOpen && s.ErrTerminal {
					openBrowser(link)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "`ADDRESS` of the console: host:port")
	f.BoolVar(&readOnly, "read-only", false, "hide every change, and refuse it")
	f.BoolVar(&noOpen, "no-open", false, "do not open the browser")
	return c
}

// openBrowser opens a page, if this system has a way. The link is printed in any case.
func openBrowser(link string) {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if cmd := exec.Command(name, args...); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
