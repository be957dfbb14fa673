# The Ruby kernel (see kernels/PROTOCOL.md).

require "json"
require "socket"

# Everything of ours; cells see `display_as` and nothing else.
module OsbKernel
  CONTROL = UNIXSocket.for_fd(3)
  MAX_TEXT = 1 << 20

  class InputNotAvailable < StandardError; end

  class << self
    def send_frame(frame)
      data = JSON.generate(frame).encode("UTF-8", invalid: :replace, undef: :replace).b
      CONTROL.write([data.bytesize].pack("N") + data)
      CONTROL.flush
    rescue SystemCallError
      exit!(0)
    end

    def receive
      head = CONTROL.read(4)
      exit!(0) if head.nil? || head.bytesize < 4
      body = CONTROL.read(head.unpack1("N"))
      body.nil? ? exit!(0) : JSON.parse(body.force_encoding("UTF-8"))
    end

    def cut(text)
      text = text.encode("UTF-8", invalid: :replace, undef: :replace)
      return text if text.length <= MAX_TEXT
      "#{text[0, MAX_TEXT]}\n... (cut: #{MAX_TEXT} of #{text.length} characters shown)"
    end

    def bundle(value)
      data = { "text/plain" => cut(value.inspect) }
      data["text/html"] = cut(value.to_html.to_s) if value.respond_to?(:to_html)
      data["image/svg+xml"] = cut(value.to_svg.to_s) if value.respond_to?(:to_svg)
      data
    end

    # Lines of the cell and what it called, not ours.
    def trace(error)
      lines = (error.backtrace || []).take_while { |line| !line.start_with?("osb kernel") }
      ["#{error.class}: #{error.message}", *lines.first(500).map { |line| "    #{line}" }]
    end

    def run(code, count, scope)
      value = eval(code, scope, "cell[#{count}]", 1)
      flush
      send_frame(op: "result", data: bundle(value), count: count) unless value.nil?
    rescue Exception => e # whatever a cell raises is its result
      flush
      name, words = e.class.name.to_s.sub("OsbKernel::", ""), e.message
      name, words = "KeyboardInterrupt", "interrupted" if e.is_a?(Interrupt)
      send_frame(op: "error", ename: name, evalue: cut(words)[0, 65536], traceback: trace(e))
    end

    def flush
      STDOUT.flush
      STDERR.flush
    rescue IOError
      nil
    end

    def interrupted?
      CONTROL.wait_readable(0) && receive["op"] == "interrupt"
    end

    def serve(scope)
      count = 0
      STDOUT.sync = STDERR.sync = true
      kept = [STDOUT.dup, STDERR.dup]
      send_frame(op: "ready", language: "ruby", version: RUBY_VERSION)
      loop do
        trap("INT", "IGNORE")
        frame = receive
        break if frame["op"] == "exit"
        next unless frame["op"] == "run"
        count += 1
        STDOUT.reopen(kept[0])
        STDERR.reopen(kept[1])
        $stdout, $stderr = STDOUT, STDERR
        STDOUT.sync = STDERR.sync = true
        trap("INT", "DEFAULT")
        begin
          run(interrupted? ? "raise Interrupt" : frame["code"], count, scope)
          trap("INT", "IGNORE")
        rescue Interrupt # a moment too late
          nil
        end
        flush
        send_frame(op: "done", count: count)
      end
      exit!(0)
    end
  end
end

module Kernel
  def display_as(data)
    data = OsbKernel.bundle(data) unless data.is_a?(Hash)
    OsbKernel.flush
    OsbKernel.send_frame(op: "display", data: data.transform_values { |v| OsbKernel.cut(v.to_s) })
    nil
  end

  def gets(*)
    raise OsbKernel::InputNotAvailable, "gets is not available: a cell runs without a person to answer"
  end
end

OsbKernel.serve(TOPLEVEL_BINDING)
