package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// helpTopics are the texts of `pawl help`.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes mean", Long: `Exit codes, the same for all commands:

  0    done
  1    it failed
  2    the command line or the configuration is wrong
  3    partly done: some were refused, skipped, or went to the dead letters
  4    unfinished; it can be resumed
  5    a conflict, or a precondition is not met
  6    not found
  7    a check found problems
  8    forbidden
  75   the store does not answer; try again
  130  interrupted, at once

A closed pipe (pawl messages ls | head) is not an error.`},
		{Use: "json", Short: "What the JSON looks like", Long: `-o json prints one document, a list as an array; -o jsonl prints one object per
line and starts at once, however long the list is.

  times      RFC 3339 with fractions, in UTC
  durations  numbers of seconds, their names end in _seconds
  ids        strings, and so are tokens
  bodies     "body", a string, if they are valid UTF-8; else "body_base64"
  keys       "key", a string, or null; if it is not valid UTF-8, null and "key_base64"

A missing value is null. Payloads are never parsed as JSON: a number in one comes out
exactly as it went in.

pawl explain has, in addition to id, topic, key, state, situation, why, since,
history, next and blocked_by (the message that holds its lane up; for a parked dead
letter, the one that it waited behind):

  cause        {code, by}: appended, replayed, released (by: the reason that the
               handler gave) or limited (by: the limit); null after a failure, see history
  lane         {before, more}: how many of its key must end before it, at most 1000;
               more: there are that many at least
  pause        {since, until, by, reason} of its topic
  after_pause  the situation that remains when the topic is resumed
  limit        the limit that holds it back
  served       of what waits: whether a worker processes its topic
  replayed     {from, at, by, operation_id}: how it came back from the dead letters
  removed      {action, at, by, reason, operation_id, sure}: of an unknown message, who
               cancelled or discarded it by its id, from the audit; sure is false if
               that command was refused for some of its ids, perhaps for this one

pawl audit ls and pawl operations say "from", the topics of the dead letters of a
replay, if they are few; a cancel has "refused_ids" in the audit. A limit of pawl
workers ls has "by_key" if it holds for each key, host or tenant separately.`},
		{Use: "store-urls", Short: "How to name a store", Long: `--store, or PAWL_STORE in the environment, says where messages are kept:

  sqlite:PATH                          a file; the default is sqlite:pawl.db
  sqlite:PATH?synchronous=normal       faster, but a power cut may lose the last moments
  sqlite:PATH?cache=2000               keeps 2,000 KiB of the file in memory instead of 16,000
  memory:                              for this one process
  postgres://USER:PASSWORD@HOST:PORT/DATABASE
      ?pawl_schema=NAME                tables are in this schema (default: pawl)
      &pawl_max_conns=N                at most this many connections
      &pawl_poll_only=true             behind a transaction pooler
  kafka://USER:PASSWORD@HOST:PORT,HOST:PORT
      ?group=NAME                      the consumer group (default: pawl)
      &prefix=TEXT                     before the name of every topic
      &tls=true                        docs/kafka.md has all options

Options of every store; docs/store-options.md has the details:

  ?fallback=URL                        what this store does not accept waits in that one, and comes back
  &codec=zstd                          compress bodies; none only reads compressed ones
  &blobs=FOLDER&offload=BYTES          larger bodies in files of a folder

Passwords are masked in all output. Other users can see them in the arguments of a
process: PAWL_STORE is the better place.`},
	}
}

// helpCommand is `pawl help`, which refuses what it does not know.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about a command, or about: exit-codes, json, store-urls",
		Long: "Prints the help of a command, or a text about exit-codes, json, or store-urls.",
		Example: `  pawl help work
  pawl help exit-codes`,
		RunE: func(c *cobra.Command, args []string) error {
			about := c.Root()
			for _, word := range args {
				var next *cobra.Command
				for _, sub := range about.Commands() {
					if sub.Name() == word || sub.HasAlias(word) {
						next = sub
					}
				}
				if next == nil {
					return unknownCommand(about, []string{word})
				}
				about = next
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// completion is `pawl completion`.
func completion() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for a shell",
		Args: count(1, 1, "the name of a shell"),
		Long: `Prints a script that lets a shell complete commands and flags.

  bash        source <(pawl completion bash)
  zsh         source <(pawl completion zsh)
  fish        pawl completion fish | source
  powershell  pawl completion powershell | Out-String | Invoke-Expression`,
		Example:   `  pawl completion bash > pawl.bash`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, args []string) error {
			root, out := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usage("use one of these", "%s",
				fmt.Sprintf("there is no completion for %q; there is bash, zsh, fish, powershell", args[0]))
		},
	}
}
