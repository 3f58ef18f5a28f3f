#include "fpga/conv_ce/generator/device_packaging.h"

#include <fmt/format.h>

#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/xrt/registers/register_map.h"

namespace millrace {

std::string kernel_xml(const DeviceDesign& design) {
  std::string ports = fmt::format(
      "      <port name=\"s_axi_control\" mode=\"slave\" range=\"{:#x}\" dataWidth=\"32\" portType=\"addressable\" base=\"0x0\"/>\n",
      xrt::kMapBytes);
  ports +=
      "      <port name=\"m_axi_gmem\" mode=\"master\" range=\"0xFFFFFFFFFFFFFFFF\" dataWidth=\"64\" portType=\"addressable\" "
      "base=\"0x0\"/>\n";
  for (const std::string& port : input_streams(design))
    ports += fmt::format("      <port name=\"{}\" mode=\"read_only\" dataWidth=\"{}\" portType=\"stream\"/>\n", port, design.lanes * 16);
  for (const std::string& port : output_streams(design))
    ports += fmt::format("      <port name=\"{}\" mode=\"write_only\" dataWidth=\"{}\" portType=\"stream\"/>\n", port, design.lanes * 16);
  std::string arguments;
  const std::vector<xrt::KernelArgument> all = xrt::kernel_arguments();
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
      xrt::kKernelName, ports, arguments);
}

std::string package_tcl(const DeviceDesign& design) {
  return fmt::format(
      "# Packs {0} as kernel {2} (.xo): vivado -mode batch -source package.tcl\n"
      "# Written after the vendor's documentation (UG1393); no vendor tool has run it.\n"
      "create_project -force {0}_kernel ./{0}_kernel\n"
      "add_files [glob rtl/*.sv] [glob images/*.hex]\nset_property top {0} [current_fileset]\nupdate_compile_order -fileset sources_1\n"
      "ipx::package_project -root_dir ./{0}_ip -vendor millrace -library kernel -taxonomy /KernelIP -import_files -set_current true\n"
      "set_property name {2} [ipx::current_core]\nset_property version 1.0 [ipx::current_core]\n"
      "foreach port {{s_axi_control m_axi_gmem}} {{\n  ipx::associate_bus_interfaces -busif $port -clock ap_clk [ipx::current_core]\n}}\n"
      "foreach port {{{1}}} {{\n  ipx::associate_bus_interfaces -busif $port -clock ap_clk [ipx::current_core]\n}}\n"
      "set_property sdx_kernel true [ipx::current_core]\nset_property sdx_kernel_type rtl [ipx::current_core]\n"
      "ipx::update_checksums [ipx::current_core]\nipx::save_core [ipx::current_core]\n"
      "package_xo -force -xo_path {0}.xo -kernel_name {2} -ip_directory ./{0}_ip -kernel_xml ./kernel.xml\n",
      design.module_name(), fmt::format("{} {}", fmt::join(input_streams(design), " "), fmt::join(output_streams(design), " ")),
      xrt::kKernelName);
}

namespace {

bool has_hbm(const std::string& board) { return board == "u280" || board == "u55c"; }

}  // namespace

std::string connectivity(const DeviceDesign& design) {
  std::string text = fmt::format(
      "# v++ --link --config connectivity.cfg: one instance, its streams to the network kernels at the board's two ends.\n"
      "# Parameters and gradients lie in the board's {2}. The names of the network kernels' ports depend on the network stack; no vendor "
      "tool has seen this file.\n"
      "[connectivity]\nnk={0}:1:{1}\nsp={1}.m_axi_gmem:{2}[0]\n",
      xrt::kKernelName, xrt::kInstanceName, has_hbm(design.board) ? "HBM" : "DDR");
  for (const std::string& port : input_streams(design))
    text += fmt::format("stream_connect={}.out_{}:{}.{}\n", port == "s_activation" || port == "s_partial" ? "upstream" : "downstream", port,
                        xrt::kInstanceName, port);
  for (const std::string& port : output_streams(design))
    text += fmt::format("stream_connect={}.{}:{}.in_{}\n", xrt::kInstanceName, port,
                        port == "m_activation" || port == "m_partial" ? "downstream" : "upstream", port);
  return text;
}

}  // namespace millrace
