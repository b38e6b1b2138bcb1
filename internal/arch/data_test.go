package arch

// layer says which packages of this module a package may import, besides those
// below its own folder. Paths are relative to the module, "." is its root; "*"
// stands for one element of a path, "..." at the end for any rest.
type layer struct {
	path string
	may  []string
	why  string
}

// layers: the first line that matches a package counts.
var layers = []layer{
	{".", nil, "the words are at the bottom: everything imports them, they import nothing"},
	{"fingerprint", []string{"."}, "texts are compared as texts"},
	{"tlscause", nil, "why TLS fails is in the error, whoever connects"},
	{"retryafter", nil, "a header is a text, whoever asked"},
	{"replybody", nil, "a reply is one, whoever asked"},
	{"store", []string{".", "fingerprint"}, "the contract knows messages, not who keeps or carries them"},
	{"store/backend", []string{".", "fingerprint", "store"}, "what all backends check and share knows none of them"},
	{"store/storetest/...", []string{".", "fingerprint", "store", "store/backend", "store/memory", "store/storetest"},
		"the suite judges backends by the contract alone; memory is its model"},
	{"store/internal/sqlstore/...", []string{".", "store", "store/backend", "store/internal/sqlstore"},
		"what the SQL stores share knows none of them"},
	{"store/internal/laneheap", nil, "a heap knows nothing of what is in it"},
	{"store/internal/bound", []string{".", "store", "store/backend"}, "the estimate of full topics knows no store that uses it"},
	{"store/memory", []string{".", "fingerprint", "store", "store/backend",
		"store/internal/sqlstore", "store/internal/bound",
		"store/internal/laneheap"},
		"a backend knows the contract, and no other backend"},
	{"store/sqlite/...", []string{".", "fingerprint", "store", "store/backend",
		"store/internal/sqlstore", "store/internal/bound"},
		"a backend knows the contract, and no other backend"},
	{"store/postgres/...", []string{".", "fingerprint", "tlscause", "store", "store/backend",
		"store/internal/sqlstore",
		"store/internal/bound"},
		"a backend knows the contract, and no other backend"},
	{"store/mysql/...", []string{".", "fingerprint", "store", "store/backend", "store/internal/sqlstore"},
		"a backend knows the contract, and no other backend"},
	{"store/kafka", []string{".", "fingerprint", "tlscause", "store", "store/backend",
		"store/internal/laneheap", "observe/figures"},
		"a backend knows the contract, and no other backend; what it counts is exported by observe"},
	{"store/spill", []string{".", "store", "store/backend", "observe/figures"},
		"a decorator knows the contract, and no backend; what it counts is exported by observe"},
	{"store/kafka/gate", []string{".", "store", "store/backend"}, "the commit gate is tested without a client or a broker"},
	{"store/...", []string{".", "fingerprint", "store", "store/backend"}, "a backend or decorator knows the contract, and no other one"},
	{"policy/...", []string{"."}, "policy is pure: from a failure to a decision"},
	{"dispatch/enginetest", []string{".", "store", "store/storetest", "policy", "dispatch", "statesync"},
		"the runtime is judged on any store, by the harness of the suite"},
	{"dispatch/internal/...", []string{".", "store", "policy"}, "the parts of the runtime do not know the runtime"},
	{"dispatch/roster", []string{"store"}, "what dispatchers say of themselves is plain data in the state of a store"},
	{"dispatch", []string{".", "store", "store/backend", "policy", "statesync"}, "the runtime runs over any store"},
	{"outbox/...", []string{".", "store", "policy"}, "mechanisms stand side by side on the contract"},
	{"cron/...", []string{".", "store", "policy"}, "mechanisms stand side by side on the contract"},
	{"statesync/...", []string{".", "store", "policy"}, "mechanisms stand side by side on the contract"},
	{"typed", []string{".", "store", "dispatch/roster"}, "a topic with its codec stands beside the runtime"},
	{"api", []string{".", "store", "store/backend",
		"policy", "dispatch", "dispatch/roster", "cron", "statesync", "observe",
		"internal/operate", "internal/wire"},
		"the door to any store; it is mountable in programs that use nothing else of ours"},
	{"console/...", []string{".", "api", "dispatch/roster", "store", "policy", "cron", "internal/operate", "internal/wire",
		"docs/runbook"},
		"the console shows any store; it is mountable in programs that use nothing else of ours"},
	{"observe/logs", []string{".", "tlscause", "observe", "observe/figures"},
		"log records and their sinks know neither stores nor pipelines; what they count is exported by observe"},
	{"observe/events", []string{".", "store", "policy", "dispatch", "observe"},
		"the bridge from dispatchers to the event bus knows both sides of it"},
	{"observe/trace", []string{".", "store", "dispatch", "observe"},
		"attempts are traced from their handler to their settle, over any store"},
	{"observe/watch", []string{".", "store", "dispatch", "dispatch/roster", "observe", "observe/figures"},
		"what a process exports of its dispatcher and store knows both sides of it"},
	{"observe/figures", nil, "the words that stores and metrics share are plain data"},
	{"observe/...", []string{"."}, "events, logs and metrics are about words, not about stores or pipelines"},
	{"pipeline/crawl/weburl", nil, "URLs as browsers read them, whatever follows links"},
	{"pipeline/crawl/sitemap", nil, "the links of a site are text; who follows them is for others to know"},
	{"pipeline/crawl/robotstxt", []string{"pipeline/crawl/weburl"}, "the rules of a host are text; who obeys them is for others to know"},
	{"pipeline/internal/markdown/texmath", []string{"pipeline/internal/markdown/markup"}, "formulas are read from markup"},
	{"pipeline/internal/markdown/...", nil, "HTML to Markdown, markup and charsets, for every pipeline that needs them"},
	{"pipeline", []string{".", "store", "policy", "dispatch", "observe"},
		"what a pipeline declares does not depend on which there are"},
	{"pipeline/convert/*", []string{".", "policy", "replybody", "retryafter", "tlscause", "pipeline/internal/...",
		"pipeline/convert/doc"},
		"converters and clients know documents, not runs"},
	{"pipeline/...", []string{".", "store", "policy", "dispatch", "observe", "observe/trace", "outbox", "open",
		"handler", "handler/*", "pipeline", "pipeline/internal/...", "replybody", "retryafter",
		"tlscause"},
		"a pipeline uses public packages only, as anybody else's would"},
	{"internal/demo", []string{"store", "pipeline", "pipeline/crawl"},
		"the living example is what a user could write, over a store that package open opened"},
	{"docs/runbook", nil, "pages are text"},
	{"internal/wire", []string{"."},
		"the JSON that programs exchange with Pawl knows neither programs nor web services"},
	{"handler/internal/process", nil, "programs are started and ended; what they are for is for the caller to say"},
	{"handler", []string{"."}, "what handlers in other languages share"},
	{"handler/*", []string{".", "policy", "replybody", "retryafter", "tlscause", "handler", "handler/internal/process",
		"internal/wire"},
		"handlers in other languages are handlers: they tell the policy what failed, and decide nothing"},
	{"internal/systemd", nil, "the service manager is spoken with in words of its own"},
	{"internal/edit", nil, "a patch changes JSON; it knows no messages"},
	{"internal/config/...", []string{".", "store", "policy", "pipeline", "cron", "observe/logs", "internal/wire"},
		"the file format knows settings and their names, not what is built from them"},
	{"open", []string{".", "store", "store/*", "observe/logs", "internal/redact"},
		"a store by its URL, with what its options put around it; and what else is written to one's brokers"},
	{"internal/terminal", nil, "a terminal shows text; what it says is for others to know"},
	{"internal/licences", nil, "the licences are a text that is made from the list of modules"},
	{"internal/redact", nil, "secrets are found in text by their form"},
	{"internal/lines", []string{"."}, "a stream is cut into lines; what they mean is for the caller to say"},
	{"internal/send", []string{".", "store", "internal/lines", "internal/wire"},
		"appending needs a store, not a runtime"},
	{"internal/bench", []string{".", "store", "dispatch", "observe", "observe/logs"},
		"what is measured is the public library"},
	{"internal/operate", []string{".", "store", "store/backend",
		"store/codec", "policy", "cron", "statesync", "dispatch/roster",
		"observe", "internal/edit", "internal/lines"},
		"one service behind the command line, the console and the API: it looks at a store and acts on it, and runs nothing"},
	{"internal/cluster", []string{".", "store", "store/kafka", "internal/operate"},
		"what only a cluster of brokers has is asked of its store"},
	{"internal/migrate", []string{".", "store", "store/backend", "store/mirror", "internal/operate"},
		"traffic moves from any store to any other"},
	{"internal/doctor", []string{".", "store", "store/mirror", "open", "handler", "internal/operate",
		"internal/migrate", "observe/watch",
		"internal/redact"}, "the doctor opens a store and looks at it"},
	{"internal/serve", []string{".", "store", "policy", "observe", "observe/events", "observe/figures",
		"observe/logs", "observe/trace", "observe/watch", "dispatch",
		"pipeline", "pipeline/*",
		"api", "console", "cron", "statesync", "open", "internal/config", "internal/operate", "handler/...",
		"internal/redact", "internal/systemd",
		"handler/http"}, "the daemon: it has the table of pipelines, runs what is configured, and serves its health"},
	{"internal/commands", []string{".", "store", "pipeline", "cron", "statesync", "internal/operate"},
		"commands of what runs over any store, in the form of those of pipelines"},
	{"internal/cli/...", []string{".", "api", "store", "policy", "pipeline", "dispatch", "dispatch/roster", "observe",
		"observe/figures", "observe/logs", "observe/trace", "internal/commands", "console", "open", "internal/bench",
		"internal/cluster", "internal/config", "internal/demo", "internal/doctor", "internal/licences",
		"internal/lines", "internal/migrate", "internal/operate", "handler/...", "internal/redact",
		"internal/send", "internal/serve", "internal/terminal", "internal/wire"}, "a command calls the rooms, which know backends and pipelines"},
	{"cmd/...", []string{"internal/cli"}, "a main is signals and an exit code"},
	{"internal/arch", nil, "the rules look at the source, they import none of it"},
	{"dev/...", nil, "developers' tools build when the rest does not"},
	{"examples/...", []string{".", "api", "store", "store/*", "open", "handler", "handler/*", "policy", "dispatch", "outbox",
		"cron", "statesync", "console", "observe", "observe/events", "observe/trace", "observe/watch", "pipeline", "pipeline/*",
		"typed"},
		"an example is a user's program: it has what is public"},
	{"e2e/...", []string{"internal/demo"}, "end-to-end tests know the binary, not its parts"},
}

// arrow is an import whose ban has a reason of its own, more telling than that of
// the layer it starts from.
type arrow struct{ from, to, why string }

var arrows = []arrow{
	{"...", "dispatch/enginetest", "the runtime's suite belongs to tests"},
	{"...", "store/storetest/...", "the suite belongs to tests: only _test.go files (and bench) import it"},
	{"pipeline/...", "internal/...", "what a pipeline needs from internal is a gap in the library: make it public"},
	{"pipeline/*", "pipeline/*", "no arrow between pipelines: what two of them need is a mechanism"},
	{"store/*", "store/*",
		"no arrow between backends or decorators: what they share is in the contract, or in store/internal/sqlstore"},
	{"...", "store/*",
		"only package open and the rooms above it name backends, so that every store can stand behind everything"},
	{"...", "pipeline/*", "only internal/serve names pipelines"},
	{"...", "internal/serve/...", "the daemon is at the top: only internal/cli starts one"},
	{"...", "internal/cli/...", "only cmd calls the command line"},
	{"...", "cmd/...", "nothing imports a main"},
}

// core packages import the standard library only, so that whoever uses the
// library gets no dependency by it.
var core = []string{".", "fingerprint", "store", "policy/...", "dispatch/..."}

// owner says which one package imports a library, and so can replace it ("/..." at the end: with those below
// it). Paths of libraries are prefixes.
type owner struct{ library, pkg string }

var owners = []owner{
	{"github.com/jackc/pgx", "store/postgres"},
	{"modernc.org/sqlite", "store/sqlite"},
	{"github.com/go-sql-driver/mysql", "store/mysql"},
	{"github.com/redis/go-redis", "..."}, // store/redis, and streams of observe/logs
	{"github.com/twmb/franz-go", "store/kafka"},
	{"github.com/pierrec/lz4", "observe/logs"}, // batches of logs, as the client of Kafka packs them
	{"github.com/klauspost/compress", "..."},   // zstd: bodies of store/codec, and of pages in pipeline/crawl
	{"github.com/andybalholm/brotli", "pipeline/crawl"},
	{"github.com/spf13/cobra", "internal/cli/..."},
	{"github.com/cpuguy83/go-md2man", "internal/cli/manual"}, // man pages
	{"github.com/spf13/pflag", "internal/cli/..."},
	{"github.com/goccy/go-yaml", "internal/config"},
	{"github.com/itchyny/gojq", "internal/edit"},
	{"github.com/prometheus", "observe/..."},
	{"go.opentelemetry.io/otel", "observe/trace"}, // spans, their names, and OTLP over HTTP and gRPC
	{"golang.org/x/net", "..."},
	{"github.com/PuerkitoBio/goquery", "pipeline/crawl/..."},
	{"github.com/andybalholm/cascadia", "pipeline/crawl/..."},
	{"github.com/antchfx", "pipeline/crawl/..."},
	{"github.com/bmatcuk/doublestar", "pipeline/convert"},
	{"golang.org/x/sync", "pipeline/convert"},
	{"golang.org/x/sys", "internal/terminal"},
	{"golang.org/x/text", "pipeline/internal/markdown/charset"},
	{"github.com/richardlehane/mscfb", "pipeline/convert/mail"},
	{"github.com/klippa-app/go-pdfium", "pipeline/convert/pdf"},
	{"github.com/tetratelabs/wazero", "pipeline/convert/pdf"}, // to bound the memory of PDFium, and keep its code
}

// testLibraries are for _test.go files, and for the suite that such files call.
var testLibraries = []string{
	"pgregory.net/rapid",
	"github.com/anishathalye/porcupine",
	"go.uber.org/goleak",
	"github.com/rogpeppe/go-internal",
	"github.com/chromedp",
	"github.com/rs/zerolog", // what toxiproxy wants to log with
	"github.com/Shopify/toxiproxy",
	"go.opentelemetry.io/proto", // a collector of OTLP
	"google.golang.org",
}

// ban forbids packages of the standard library to packages of ours.
type ban struct {
	from, except, to []string
	why              string
}

var bans = []ban{
	{[]string{"..."}, []string{"store/storetest/...", "dispatch/enginetest"}, []string{"testing", "testing/..."},
		"production code does not carry the test runner; the suites alone are made for tests"},
	{[]string{"..."}, nil, []string{"math/rand"}, "math/rand/v2 needs no seeding and has the better generators"},
	{[]string{"..."}, []string{"examples/..."}, []string{"log"}, "log/slog: fields that one can search"},
	{[]string{"..."}, nil, []string{"io/ioutil"}, "os and io have all of it"},
	{[]string{".", "policy/..."}, nil, []string{"os", "os/...", "net", "net/...", "database/...", "log/..."},
		"words and decisions do no I/O"},
	{[]string{"dispatch/..."}, nil, []string{"os", "os/...", "net", "net/...", "database/..."},
		"the runtime does its I/O through a store and a handler"},
}

// vague names say where code was put, not what it does.
var vague = []string{"types", "common", "util", "utils", "helper", "helpers", "base", "misc", "shared", "lib",
	"core", "models"}

// Limits in lines, beyond which a file or function is asked whether it is one thing, and a package, without its
// tests, has to be divided: but for stores, and the suite that judges them.
const (
	maxFile     = 500
	maxFunction = 80
	maxPackage  = 8500
)

// maxMethods is how many methods a type has at most: one with more has several owners. Left out are those that are a
// vocabulary: every command of the command line, every request of the API, every phrase of a test.
const maxMethods = 60

var vocabularies = []string{"internal/cli.session", "api.exchange", "store/storetest.T"}

// maxOptional is how many interfaces beside Store package store has at most: each is implemented by every backend and
// decorator.
const maxOptional = 10

// maxColumns is how wide a line is at most, with a tab as wide as tabWidth.
const (
	maxColumns = 120
	tabWidth   = 4
)

// exceptions are files ("store/store.go") and functions ("store/store.go:Open",
// "store/store.go:Batch.Add") beyond a limit, with the reason why they are better whole.
var exceptions = map[string]string{}
