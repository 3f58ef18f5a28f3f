#include "fpga/common/generator/kernel_packaging.h"

#include <fmt/format.h>

#include <span>

namespace millrace {

namespace {

std::string names_of(std::span<const PackagedStream> streams) {
  std::string names;
  for (const PackagedStream& stream : streams) names += (names.empty() ? "" : " ") + stream.name;
  return names;
}

std::string names_of(std::span<const PackagedMemory> memories) {
  std::string names;
  for (const PackagedMemory& memory : memories) names += " " + memory.name;
  return names;
}

bool has_hbm(const std::string& board) { return board == "u280" || board == "u55c"; }

}  // namespace

std::string kernel_xml(const PackagedKernel& kernel) {
  std::string ports = fmt::format(
      "      <port name=\"s_axi_control\" mode=\"slave\" range=\"{:#x}\" dataWidth=\"32\" portType=\"addressable\" base=\"0x0\"/>\n",
      xrt::kMapBytes);
  ports +=
      "      <port name=\"m_axi_gmem\" mode=\"master\" range=\"0xFFFFFFFFFFFFFFFF\" dataWidth=\"64\" portType=\"addressable\" "
      "base=\"0x0\"/>\n";
  for (const PackagedMemory& memory : kernel.memories)
    ports += fmt::format(
        "      <port name=\"{}\" mode=\"master\" range=\"0xFFFFFFFFFFFFFFFF\" dataWidth=\"{}\" portType=\"addressable\" base=\"0x0\"/>\n",
        memory.name, memory.bits);
  for (const PackagedStream& port : kernel.inputs)
    ports +=
        fmt::format("      <port name=\"{}\" mode=\"read_only\" dataWidth=\"{}\" portType=\"stream\"/>\n", port.name, kernel.stream_bits);
  for (const PackagedStream& port : kernel.outputs)
    ports +=
        fmt::format("      <port name=\"{}\" mode=\"write_only\" dataWidth=\"{}\" portType=\"stream\"/>\n", port.name, kernel.stream_bits);
  std::string arguments;
  const std::vector<xrt::KernelArgument>& all = kernel.arguments;
  for (size_t id = 0; id < all.size(); ++id)
    arguments += fmt::format(
        "      <arg name=\"{}\" addressQualifier=\"{}\" id=\"{}\" port=\"{}\" size=\"{:#x}\" offset=\"{:#x}\" type=\"{}\" "
        "hostOffset=\"0x0\" hostSize=\"{:#x}\"/>\n",
        all[id].name, all[id].pointer ? 1 : 0, id, all[id].pointer ? "m_axi_gmem" : "s_axi_control", all[id].bytes, all[id].offset,
        all[id].pointer ? "void*" : "uint", all[id].bytes);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<root versionMajor=\"1\" versionMinor=\"6\">\n"
      "  <kernel name=\"{0}\" language=\"ip_c\" vlnv=\"millrace:kernel:{0}:1.0\" preferredWorkGroupSizeMultiple=\"0\" workGroupSize=\"1\" "
      "interrupt=\"false\" hwControlProtocol=\"ap_ctrl_hs\">\n    <ports>\n{1}    </ports>\n    <args>\n{2}    </args>\n"
      "  </kernel>\n</root>\n",
      kernel.kernel, ports, arguments);
}

std::string package_tcl(const PackagedKernel& kernel) {
  return fmt::format(
      "# Packs {0} as kernel {2} (.xo): vivado -mode batch -source package.tcl\n"
      "# Written after the vendor's documentation (UG1393); no vendor tool has run it.\n"
      "create_project -force {0}_kernel ./{0}_kernel\n"
      "add_files [glob rtl/*.sv] [glob images/*.hex]\nset_property top {0} [current_fileset]\nupdate_compile_order -fileset sources_1\n"
      "ipx::package_project -root_dir ./{0}_ip -vendor millrace -library kernel -taxonomy /KernelIP -import_files -set_current true\n"
      "set_property name {2} [ipx::current_core]\nset_property version 1.0 [ipx::current_core]\n"
      "foreach port {{s_axi_control m_axi_gmem{3}}} {{\n  ipx::associate_bus_interfaces -busif $port -clock ap_clk "
      "[ipx::current_core]\n}}\n"
      "foreach port {{{1}}} {{\n  ipx::associate_bus_interfaces -busif $port -clock ap_clk [ipx::current_core]\n}}\n"
      "set_property sdx_kernel true [ipx::current_core]\nset_property sdx_kernel_type rtl [ipx::current_core]\n"
      "ipx::update_checksums [ipx::current_core]\nipx::save_core [ipx::current_core]\n"
      "package_xo -force -xo_path {0}.xo -kernel_name {2} -ip_directory ./{0}_ip -kernel_xml ./kernel.xml\n",
      kernel.module, fmt::format("{} {}", names_of(kernel.inputs), names_of(kernel.outputs)), kernel.kernel, names_of(kernel.memories));
}

std::string connectivity(const PackagedKernel& kernel) {
  std::string text = fmt::format(
      "# v++ --link --config connectivity.cfg: one instance, its streams to the network kernels at the board's two ends.\n"
      "# Parameters and gradients lie in the board's {2}. The names of the network kernels' ports depend on the network stack; no vendor "
      "tool has seen this file.\n"
      "[connectivity]\nnk={0}:1:{1}\nsp={1}.m_axi_gmem:{2}[0]\n",
      kernel.kernel, kernel.instance, has_hbm(kernel.board) ? "HBM" : "DDR");
  for (const PackagedMemory& memory : kernel.memories)
    text += fmt::format("sp={}.{}:{}[0]\n", kernel.instance, memory.name, has_hbm(kernel.board) ? "HBM" : "DDR");
  for (const PackagedStream& port : kernel.inputs)
    text +=
        fmt::format("stream_connect={}.out_{}:{}.{}\n", port.upstream ? "upstream" : "downstream", port.name, kernel.instance, port.name);
  for (const PackagedStream& port : kernel.outputs)
    text +=
        fmt::format("stream_connect={}.{}:{}.in_{}\n", kernel.instance, port.name, port.upstream ? "upstream" : "downstream", port.name);
  return text;
}

}  // namespace millrace
