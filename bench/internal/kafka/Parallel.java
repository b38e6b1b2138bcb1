import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Confluent's Parallel Consumer, in order of keys, as an arm of the benchmark. It
 * reads a topic to warm up, then another one with the clock on, and prints what it
 * measured as a line of JSON. Settings are system properties with the names below.
 */
public class Parallel {
	static String brokers = System.getProperty("brokers");
	static int keys = Integer.getInteger("keys");
	static int atOnce = Integer.getInteger("at.once");

	public static void main(String[] args) throws Exception {
		new Parallel(System.getProperty("warm.topic"), System.getProperty("group") + "-warm", Integer.getInteger("warm.n"), 0).run();
		Parallel p = new Parallel(System.getProperty("topic"), System.getProperty("group"), Integer.getInteger("n"), Long.getLong("takes.ms"));
		long cpu = cpu();
		p.run();
		System.out.printf("{\"elapsed_ns\":%d,\"cpu_ns\":%d,\"rss_bytes\":%d,\"handled\":%d,\"repeated\":%d}%n",
				p.ended - p.began.get(), p.cpuAtEnd - cpu, rss(), p.handled.get(), p.repeated.get());
		System.exit(0);
	}

	final String topic, group;
	final int n;
	final long takes;
	final AtomicInteger handled = new AtomicInteger(), repeated = new AtomicInteger();
	final AtomicIntegerArray last = new AtomicIntegerArray(keys);
	final AtomicLong began = new AtomicLong();
	final CountDownLatch done = new CountDownLatch(1);
	volatile long ended, cpuAtEnd;

	Parallel(String topic, String group, int n, long takes) {
		this.topic = topic;
		this.group = group;
		this.n = n;
		this.takes = takes;
	}

	void run() throws Exception {
		Properties c = new Properties();
		c.put("bootstrap.servers", brokers);
		c.put("group.id", group);
		c.put("enable.auto.commit", "false");
		c.put("auto.offset.reset", "earliest");
		c.put("isolation.level", "read_committed");
		for (String name : List.of("fetch.min.bytes", "fetch.max.wait.ms", "fetch.max.bytes", "max.partition.fetch.bytes", "max.poll.records")) {
			c.put(name, System.getProperty(name));
		}
		c.put("key.deserializer", ByteArrayDeserializer.class.getName());
		c.put("value.deserializer", ByteArrayDeserializer.class.getName());
		ParallelStreamProcessor<byte[], byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(
				ParallelConsumerOptions.<byte[], byte[]>builder()
						.ordering(ParallelConsumerOptions.ProcessingOrder.KEY)
						.maxConcurrency(atOnce)
						.commitInterval(Duration.ofMillis(Long.getLong("commit.ms")))
						.consumer(new KafkaConsumer<>(c))
						.build());
		processor.subscribe(List.of(topic));
		processor.poll(context -> handle(context.getSingleRecord().key(), context.getSingleRecord().value()));
		done.await();
		cpuAtEnd = cpu();
		processor.closeDrainFirst(Duration.ofSeconds(30));
	}

	/** A key is key-0000042; a body begins with the record's number, which rises within a key. */
	void handle(byte[] name, byte[] value) {
		if (began.get() == 0) {
			began.compareAndSet(0, System.nanoTime());
		}
		if (takes > 0) {
			try {
				Thread.sleep(takes);
			} catch (InterruptedException e) {
				throw new RuntimeException(e);
			}
		}
		int key = Integer.parseInt(new String(name, 4, 7)), turn = (int) ByteBuffer.wrap(value).getLong() + 1;
		if (turn > last.get(key)) {
			last.set(key, turn);
		} else {
			repeated.incrementAndGet();
		}
		if (handled.incrementAndGet() == n) {
			ended = System.nanoTime();
			done.countDown();
		}
	}

	static long cpu() {
		return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
	}

	static long rss() throws Exception {
		for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
			if (line.startsWith("VmHWM:")) {
				return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
			}
		}
		return 0;
	}
}
